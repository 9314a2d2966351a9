"""A campaign that hunts for exceptions: random problems, and checks that share no code with the package.

    make campaign MINUTES=30                 thousands of problems, a table and the seed of every failure
    cd tests && python -m campaign --seed 7  one problem: what it is and what fails

| file        | what it does                                                                          |
| ----------- | ------------------------------------------------------------------------------------- |
| problems.py | makes a problem from one integer                                                      |
| twins.py    | makes another one of it that has the same solution                                    |
| textbook.py | primal, dual, gap and violation of every machine from its definition, in float64      |
| models.py   | reads what these need from a model's public attributes                                |
| checks.py   | fits, and compares what the package says of the model with what these say             |
| programs.py | the same for plain quadratic programs given to ``solve``                              |
| referees.py | LIBSVM, LIBLINEAR and Clarabel on the same problems                                   |
| reports.py  | the kinds of failure, the most harmful first                                          |
| runner.py   | processes, time limits, log and table                                                 |
"""
