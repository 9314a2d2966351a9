"""A campaign that hunts for exceptions: random problems, and checks that share no code with the package.

    make campaign MINUTES=30                 thousands of problems, a table and the seed of every failure
    cd tests && python -m campaign --seed 7  one problem: what it is and what fails

| file         | what it does                                                                          |
| ------------ | ------------------------------------------------------------------------------------- |
| problems.py  | makes a problem from one integer                                                      |
| textbook.py  | primal, dual, gap and violation of every machine from its definition, in float64       |
| checks.py    | fits, then compares what the model's public attributes say with what the package says |
| programs.py  | the same for plain quadratic programs given to ``solve``                              |
| referees.py  | LIBSVM, LIBLINEAR and Clarabel on the same problems                                   |
| runner.py    | processes, time limits, log and table                                                 |
"""
