"use strict";
// The page of the toy: points in a square, fits asked of the server, pictures of them as they come.

const $ = (id) => document.getElementById(id);
const PACE = 60; // milliseconds that a picture of a step is shown
const RADIUS = 5; // of a point, in CSS pixels
const REACH = 9; // how near a click must be to take hold of a point

const state = {
  points: [], // {x, y, c}
  pen: 1, // a class, or 0 to remove
  pictures: [], // that have come from the server for the present run
  rows: [], // words on a long fit
  shown: -1, // number of the picture on the screen
  cursor: null, // the cross of the keyboard
  run: null, // {name, abort}
  choices: null,
  timer: 0,
};

const WORDS = {
  classes: [
    "The <b>solid line</b> is the boundary between two classes, the <b>dashed lines</b> are the margins, where the decision is +1 and −1 (drawn for two classes; of more, each pair has a machine, and they vote). A machine wants the margins far apart and few points between them; <b>C</b> says how much a point on the wrong side of its margin costs.",
    "Points with a <b>ring</b> are the support vectors: the others could be removed and nothing would change. The thicker the ring, the harder a point pulls.",
  ],
  values: [
    "The <b>solid line</b> is the function that was fitted to the points, the <b>dashed lines</b> are its tube, ε above and below. A point inside the tube costs nothing; outside it costs C times its distance from it.",
    "Points with a <b>ring</b> lie on the tube or outside: they are the support vectors, and only they shape the function.",
  ],
  "one class": [
    "The <b>solid line</b> encloses the points: what lies outside is called an outlier. <b>ν</b> bounds the share of points outside from above, and that of the support vectors from below.",
    "Points with a <b>ring</b> are the support vectors, which lie on the line or outside.",
  ],
  PSVC: [
    "The <b>solid line</b> is the boundary, the <b>dashed lines</b> are where the decision is +1 and −1, which a Potential SVM aims at for every point. <b>ε</b> says how much the kernel of a point may still agree with the errors that are left: the larger, the fewer points describe the boundary. <b>C</b> bounds their coefficients.",
    "Points with a <b>ring</b> were chosen to describe the boundary. Unlike other machines, this one minds the errors of all points.",
  ],
  all: "<b>The gap</b> is the proof. The primal value is what the present machine costs; the dual value is a bound that no machine can go below. The best one lies between them, so when the gap is zero there is nothing left to find. <b>Step</b> lets the solver take one more step: pairs of points for SMO, one point at a time for MPD, all of them for Newton and the interior point.",
};

// -- settings ---------------------------------------------------------------------------------------------------------

const machine = () => state.choices.machines[$("machine").value];
const power = (id) => Number((10 ** Number($(id).value)).toPrecision(3));
const duration = (s) => (s < 1 ? `${Number((1e3 * s).toPrecision(2))} ms` : `${Number(s.toPrecision(2))} s`);
const shortNumber = (v) => (v === null || v === undefined || Number.isNaN(v) ? "–" : Math.abs(v) >= 1e4 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(1) : String(Number(v.toPrecision(5))));

function fill(select, names) {
  const before = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  select.value = names.includes(before) ? before : names[0];
}

function offer() {
  const known = machine();
  fill($("solver"), known.solvers);
  const kernel = known.kernel ? $("kernel").value : "linear";
  for (const row of document.querySelectorAll("[data-for]")) {
    const name = row.dataset.for;
    const needless = { kernel: !known.kernel, degree: kernel !== "poly", gamma: !known.sliders.includes("gamma") || kernel === "linear" };
    row.hidden = name in needless ? needless[name] : !known.sliders.includes(name);
  }
  for (const output of document.querySelectorAll(".controls output")) {
    const id = output.htmlFor[0];
    output.value = id === "degree" ? $(id).value : shortNumber(power(id));
  }
  const classes = known.task === "classes";
  for (const pen of document.querySelectorAll(".pen")) pen.hidden = !classes && pen.dataset.pen > 1;
  if (!classes && state.pen > 1) choosePen(1);
  $("words").innerHTML = [...(WORDS[$("machine").value] || WORDS[known.task]), WORDS.all].map((text) => `<p>${text}</p>`).join("");
  $("task-hint").textContent = {
    classes: "Click to add points of a class, drag to move them.",
    values: "Click to add points: the function of x that is fitted to them is drawn.",
    "one class": "Click to add points: the machine encloses them.",
  }[known.task];
}

function choosePen(pen) {
  state.pen = pen;
  for (const input of document.querySelectorAll(".pen input")) input.checked = Number(input.value) === pen;
}

function makePens() {
  const pens = [1, 2, 3, 4, 5, 6, 0].slice(6 - state.choices.limits.classes);
  $("pens").replaceChildren(...pens.map((pen) => {
    const label = document.createElement("label"), input = document.createElement("input"), mark = document.createElement("i");
    label.className = "pen";
    label.dataset.pen = pen;
    Object.assign(input, { type: "radio", name: "pen", value: pen, checked: pen === state.pen });
    input.setAttribute("aria-label", pen ? `class ${pen}` : "remove points");
    input.addEventListener("change", () => choosePen(pen));
    if (pen) mark.className = `c${pen}`;
    label.append(input, ...(pen ? [mark, String(pen)] : ["Remove"]));
    return label;
  }));
}

// -- examples ---------------------------------------------------------------------------------------------------------

function noise(seed) { // the same picture each time
  let s = seed;
  const uniform = () => { s = (Math.imul(s, 1664525) + 1013904223) >>> 0; return (s + 0.5) / 4294967296; };
  return { uniform, normal: () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()) };
}

const EXAMPLES = {
  "two moons": (r) => Array.from({ length: 60 }, (_, i) => {
    const t = Math.PI * r.uniform(), up = i % 2, x = up ? 1 - Math.cos(t) : Math.cos(t), y = up ? 0.5 - Math.sin(t) : Math.sin(t);
    return { x: 0.55 * (x - 0.5) + 0.05 * r.normal(), y: 0.65 * (y - 0.25) + 0.05 * r.normal(), c: up + 1 };
  }),
  "two clouds": (r) => Array.from({ length: 50 }, (_, i) => ({ x: (i % 2 ? 0.3 : -0.3) + 0.24 * r.normal(), y: (i % 2 ? 0.25 : -0.25) + 0.24 * r.normal(), c: (i % 2) + 1 })),
  "three clouds": (r) => Array.from({ length: 60 }, (_, i) => ({ x: [-0.45, 0.45, 0][i % 3] + 0.2 * r.normal(), y: [-0.3, -0.3, 0.45][i % 3] + 0.2 * r.normal(), c: (i % 3) + 1 })),
  spiral: (r) => Array.from({ length: 80 }, (_, i) => {
    const t = 0.6 + 2.6 * Math.PI * Math.sqrt(r.uniform()), turn = (i % 2) * Math.PI;
    return { x: 0.095 * t * Math.cos(t + turn), y: 0.095 * t * Math.sin(t + turn), c: (i % 2) + 1 };
  }),
  "a wave": (r) => Array.from({ length: 45 }, () => { const x = 1.8 * r.uniform() - 0.9; return { x, y: 0.5 * Math.sin(4.5 * x) + 0.09 * r.normal(), c: 1 }; }),
  "a ring": (r) => Array.from({ length: 50 }, () => { const t = 2 * Math.PI * r.uniform(), a = 0.55 + 0.06 * r.normal(); return { x: a * Math.cos(t), y: a * Math.sin(t), c: 1 }; }),
};

function showExample(name) {
  state.points = EXAMPLES[name](noise(7)).map((p) => ({ ...p, x: clamp(p.x, -0.98, 0.98), y: clamp(p.y, -0.98, 0.98) }));
  changed();
}

const clamp = (v, low, high) => Math.min(Math.max(v, low), high);

// -- asking the server ------------------------------------------------------------------------------------------------

function request(extra) {
  const known = machine(), kernel = known.kernel ? $("kernel").value : "linear";
  const body = { machine: $("machine").value, kernel, solver: $("solver").value, grid: new Set(state.points.map((p) => p.c)).size > 2 && known.task === "classes" ? 160 : 80, degree: Number($("degree").value), ...extra };
  body.points = state.points.map((p) => [p.x, p.y, p.c]);
  for (const name of known.sliders) body[name] = power(name);
  return body;
}

async function post(path, body, signal) {
  return fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
}

function say(text, bad = false) {
  $("message").textContent = text;
  $("message").classList.toggle("bad", bad);
}

function setState(name) {
  document.body.dataset.state = name;
  $("stop").disabled = name !== "busy";
}

function forget() { // what was drawn belongs to other points
  state.pictures = [];
  state.rows = [];
  state.shown = -1;
  $("scrub").disabled = true;
  $("scrub-value").value = $("verdict").textContent = "";
  for (const fact of document.querySelectorAll("#facts dd")) fact.textContent = "–";
}

function ready() {
  if (!state.points.length) return false;
  return machine().task !== "classes" || new Set(state.points.map((p) => p.c)).size > 1;
}

async function train({ every = $("animate").checked, first = 1, last = null } = {}) {
  if (!ready()) {
    forget();
    draw();
    say(state.points.length ? "Add points of a second class." : "Click into the picture to add points.");
    setState("idle");
    return;
  }
  if (state.run) state.run.abort.abort();
  const run = { name: Math.random().toString(36).slice(2), abort: new AbortController(), fresh: first === 1 };
  state.run = run;
  state.rows = [];
  setState("busy");
  const slow = setTimeout(() => say("Working … the first use of a solver compiles its inner loops, which takes some seconds."), 1500);
  try {
    const answer = await post("fit", request({ every, first, last, run: run.name }), run.abort.signal);
    if (!answer.ok) throw new Error((await answer.json()).error);
    await listen(answer.body.getReader(), run, every || last !== null);
    if (state.run === run) await finish(run);
  } catch (problem) {
    if (state.run === run && problem.name !== "AbortError") {
      say(problem instanceof TypeError ? "The server does not answer; is maxmargin toy still running?" : problem.message, true);
      forget(); // what is drawn is of other settings
      draw();
      setState("failed");
    }
  } finally {
    clearTimeout(slow);
    if (state.run === run) state.run = null;
  }
}

async function listen(reader, run, play) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done || state.run !== run) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const [, kind, data] = event.match(/^event: (\w+)\ndata: (.*)$/s) || [];
      if (kind) hear(kind, JSON.parse(data), run, play);
    }
  }
}

function hear(kind, facts, run, play) {
  if (kind === "failure") throw new Error(facts.error);
  if (kind === "progress") {
    state.rows.push(facts);
    say(`Step ${facts.step}, ${facts.seconds.toFixed(1)} s` + (facts.primal !== null && facts.dual !== null ? `, gap ${shortNumber(facts.primal - facts.dual)}` : ""));
    drawGap();
  }
  if (kind !== "picture") return;
  if (run.fresh) { // the old picture stays until there is a new one
    forget();
    run.fresh = false;
  }
  state.pictures.push(unpacked(facts));
  if (play) playOn();
  else show(state.pictures.length - 1);
}

function unpacked(facts) {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (facts.field) facts.field = new Float32Array(bytes(facts.field).buffer);
  if (facts.curve) facts.curve = new Float32Array(bytes(facts.curve).buffer);
  if (facts.labels) facts.labels = bytes(facts.labels);
  return facts;
}

function playOn() {
  if (state.timer) return;
  const next = () => {
    state.timer = 0;
    if (state.shown + 1 >= state.pictures.length) return;
    show(state.shown + 1);
    state.timer = setTimeout(next, PACE);
  };
  next();
}

async function finish(run) {
  while (state.run === run && state.shown + 1 < state.pictures.length) await new Promise((resolve) => setTimeout(resolve, PACE));
  if (state.run !== run || !state.pictures.length) return;
  say("");
  setState("done");
}

async function oneStep() {
  const before = state.pictures[state.shown];
  if (before && before.converged && before.last && state.shown === state.pictures.length - 1) {
    say("The solver has converged: there is no step left. Step starts again.");
    forget();
  }
  if (state.shown >= 0 && state.shown < state.pictures.length - 1) return show(state.shown + 1); // already here
  const next = state.pictures.length ? state.pictures.at(-1).steps + 1 : 1;
  await train({ every: true, first: next, last: next });
}

let pending = 0;
function changed({ quick = false } = {}) {
  offer();
  remember();
  draw();
  clearTimeout(pending);
  if (!$("follow").checked) return void (state.pictures.length && (forget(), draw()));
  pending = setTimeout(() => train(quick ? { every: false } : {}), quick ? 15 : 120);
}

// -- drawing ----------------------------------------------------------------------------------------------------------

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgb = (name) => { const v = parseInt(colour(name).slice(1), 16); return [v >> 16, (v >> 8) & 255, v & 255]; };

function fitted(canvas) { // a context in CSS pixels, sharp on any screen
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [context, w, h];
}

function show(number) {
  state.shown = number;
  const p = state.pictures[number];
  $("scrub").max = state.pictures.length - 1;
  $("scrub").value = number;
  $("scrub").disabled = state.pictures.length < 2;
  $("scrub-value").value = p.steps;
  $("primal").textContent = shortNumber(p.primal);
  $("dual").textContent = shortNumber(p.dual);
  $("gap-value").textContent = p.gap === null ? "no bound yet" : p.gap.toExponential(1);
  $("relative").textContent = p.relative_gap === null ? "–" : p.relative_gap < 1e-3 ? p.relative_gap.toExponential(1) : `${(100 * p.relative_gap).toPrecision(3)} %`;
  $("violation").textContent = p.violation === null ? "–" : p.violation.toExponential(1);
  $("steps").textContent = p.steps;
  $("supports").textContent = `${p.support.length} of ${state.points.length}`;
  $("time").textContent = duration(p.seconds);
  const many = p.problems > 1 ? ` Values are sums over ${p.problems} machines, one for each ${$("machine").value === "SVC" || $("machine").value === "NuSVC" ? "pair of classes" : "class"}.` : "";
  $("verdict").textContent = (p.converged ? "Converged: the gap is the proof." : p.last && !/iteration limit/.test(p.status) ? `Stopped: ${p.status}.` : "On the way.") + ` ${p.score}.` + ` By ${p.solver}.` + many;
  $("verdict").classList.toggle("good", p.converged);
  draw();
}

function draw() {
  const [context, w, h] = fitted($("plane"));
  drawPlane(context, w, h);
  drawGap();
}

function drawPlane(context, w, h) {
  const p = state.pictures[state.shown], X = (x) => ((x + 1) / 2) * w, Y = (y) => ((1 - y) / 2) * h;
  context.fillStyle = colour("--card");
  context.fillRect(0, 0, w, h);
  if (p) {
    if (p.field) drawField(context, p, w, h);
    if (p.labels) drawLabels(context, p, w, h);
    if (p.curve) drawCurve(context, p, X, Y);
  }
  const task = machine().task, ringed = new Map(p ? p.support.map((k, i) => [k, p.sizes[i]]) : []);
  state.points.forEach((point, k) => {
    const x = X(point.x), y = Y(point.y);
    context.beginPath();
    context.arc(x, y, RADIUS, 0, 2 * Math.PI);
    context.fillStyle = colour(`--c${task === "classes" ? point.c : 1}`);
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = colour("--card");
    context.stroke();
    if (!ringed.has(k)) return;
    context.beginPath();
    context.arc(x, y, RADIUS + 3, 0, 2 * Math.PI);
    context.lineWidth = 1 + 2 * ringed.get(k);
    context.strokeStyle = colour("--ink");
    context.stroke();
  });
  if (state.cursor && document.activeElement === $("plane")) {
    const x = X(state.cursor.x), y = Y(state.cursor.y);
    context.strokeStyle = colour("--ink");
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - 9, y); context.lineTo(x + 9, y); context.moveTo(x, y - 9); context.lineTo(x, y + 9);
    context.stroke();
  }
}

function tint(context, side, paint, w, h, smooth) { // a small image, stretched: its pixels' centres lie on the grid
  const small = document.createElement("canvas");
  small.width = small.height = side;
  const pixels = small.getContext("2d").createImageData(side, side);
  for (let r = 0; r < side; r++) for (let c = 0; c < side; c++) {
    const at = 4 * ((side - 1 - r) * side + c), [red, green, blue, alpha] = paint(r * side + c);
    pixels.data.set([red, green, blue, alpha], at);
  }
  small.getContext("2d").putImageData(pixels, 0, 0);
  const dx = w / (side - 1), dy = h / (side - 1);
  context.imageSmoothingEnabled = smooth;
  context.drawImage(small, -dx / 2, -dy / 2, w + dx, h + dy);
}

function drawField(context, p, w, h) {
  const side = Math.round(Math.sqrt(p.field.length)), [low, high] = p.pair ? p.pair : [0, 1];
  const below = low ? rgb(`--c${low}`) : rgb("--soft"), above = rgb(`--c${high}`);
  let largest = 1;
  if (!p.pair) largest = Math.max(1e-12, p.field.reduce((a, v) => Math.max(a, v), 0)); // one-class decisions have no unit
  tint(context, side, (k) => [...(p.field[k] > 0 ? above : below), 25 + 70 * Math.min(Math.abs(p.field[k]) / largest, 1)], w, h, true);
  const ink = colour("--ink");
  contour(context, p.field, side, 0, w, h, ink, 2.2, []);
  if (p.pair) for (const level of [-1, 1]) contour(context, p.field, side, level, w, h, ink, 1.2, [5, 4]);
}

function drawLabels(context, p, w, h) {
  const side = Math.round(Math.sqrt(p.labels.length));
  const tints = [null, 1, 2, 3, 4, 5, 6].map((c) => c && rgb(`--c${c}`));
  tint(context, side, (k) => [...tints[p.labels[k]], 70], w, h, true);
  for (const label of new Set(p.labels)) contour(context, soft(p.labels, label, side), side, 0.5, w, h, colour("--ink"), 1.8, []);
}

function soft(labels, label, side) { // the share of a class among the neighbours: its half is a line without stairs
  let field = Float32Array.from(labels, (v) => (v === label ? 1 : 0));
  for (const stride of [1, side, 1, side]) {
    const next = new Float32Array(field.length);
    for (let k = 0; k < field.length; k++) {
      const at = stride === 1 ? k % side : Math.floor(k / side);
      let sum = 0;
      for (let d = -2; d <= 2; d++) sum += field[k + stride * (clamp(at + d, 0, side - 1) - at)];
      next[k] = sum / 5;
    }
    field = next;
  }
  return field;
}

function contour(context, field, side, level, w, h, style, width, dash) { // marching squares, joined into lines
  const dx = w / (side - 1), dy = h / (side - 1), ways = new Map();
  const share = (a, b) => (level - a) / (b - a);
  const joined = (a, b) => { for (const [k, o] of [[a, b], [b, a]]) ways.has(k) ? ways.get(k).push(o) : ways.set(k, [o]); };
  const where = (edge) => { // the crossing on an edge: number 2k from k to its right, 2k + 1 from k upwards
    const k = edge >> 1, r = Math.floor(k / side), c = k % side, up = edge & 1, t = share(field[k], field[k + (up ? side : 1)]);
    return [(c + (up ? 0 : t)) * dx, h - (r + (up ? t : 0)) * dy];
  };
  for (let r = 0; r + 1 < side; r++) for (let c = 0; c + 1 < side; c++) {
    const k = r * side + c, above = [field[k] > level, field[k + 1] > level, field[k + side + 1] > level, field[k + side] > level];
    const edges = [2 * k, 2 * (k + 1) + 1, 2 * (k + side), 2 * k + 1].filter((_, i) => above[i] !== above[(i + 1) % 4]);
    if (edges.length === 2) joined(edges[0], edges[1]);
    else if (edges.length === 4) {
      const middle = (field[k] + field[k + 1] + field[k + side] + field[k + side + 1]) / 4 > level;
      middle === above[0] ? (joined(edges[0], edges[1]), joined(edges[2], edges[3])) : (joined(edges[3], edges[0]), joined(edges[1], edges[2]));
    }
  }
  context.strokeStyle = style;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.lineJoin = "round";
  context.beginPath();
  const trace = (start) => {
    let at = start;
    context.moveTo(...where(at));
    while (ways.get(at)?.length) {
      const next = ways.get(at).pop();
      ways.get(next).splice(ways.get(next).indexOf(at), 1);
      at = next;
      context.lineTo(...where(at));
    }
  };
  for (const [edge, others] of ways) if (others.length === 1) trace(edge); // lines that leave the picture, then rings
  for (const edge of ways.keys()) if (ways.get(edge).length) trace(edge);
  context.stroke();
  context.setLineDash([]);
}

function drawCurve(context, p, X, Y) {
  const n = p.curve.length, ink = colour("--ink"), tone = rgb("--c1");
  const line = (shift) => { for (let k = 0; k < n; k++) context.lineTo(X((2 * k) / (n - 1) - 1), Y(p.curve[k] + shift)); };
  context.beginPath();
  line(p.tube);
  for (let k = n - 1; k >= 0; k--) context.lineTo(X((2 * k) / (n - 1) - 1), Y(p.curve[k] - p.tube));
  context.fillStyle = `rgba(${tone.join(",")},0.15)`;
  context.fill();
  for (const [shift, width, dash] of [[0, 2.2, []], [p.tube, 1.2, [5, 4]], [-p.tube, 1.2, [5, 4]]]) {
    context.beginPath();
    line(shift);
    context.lineWidth = width;
    context.setLineDash(dash);
    context.strokeStyle = ink;
    context.stroke();
  }
  context.setLineDash([]);
}

function drawGap() {
  const [context, w, h] = fitted($("gap"));
  plotGap(context, w, h);
}

function plotGap(context, w, h) {
  const axis = $("axis").value, least = axis === "steps" ? 1 : 1e-6, ROUNDING = 1e-16;
  context.fillStyle = colour("--card");
  context.fillRect(0, 0, w, h);
  const marks = state.pictures.map((p, k) => [Math.max(p[axis], least), p.gap === null ? NaN : Math.max(p.gap, ROUNDING), k]);
  for (let k = marks.length - 2; k >= 0; k--) marks[k][0] = Math.min(marks[k][0], marks[k + 1][0]); // fewer steps take no longer than more
  const words = axis === "seconds" ? state.rows.filter((r) => r.primal !== null && r.dual !== null).map((r) => [r.seconds, Math.max(r.primal - r.dual, ROUNDING)]) : [];
  const seen = [...marks, ...words].filter(([, g]) => Number.isFinite(g));
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.fillStyle = colour("--soft");
  if (!seen.length) return void context.fillText("The gap appears here, step by step.", 12, h / 2);
  const decade = (v) => Math.log10(v), xs = seen.map(([x]) => decade(x)), ys = seen.map(([, y]) => decade(y));
  const x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 0.3), y0 = Math.floor(Math.min(...ys)), y1 = Math.max(Math.ceil(Math.max(...ys)), y0 + 1);
  const left = 54, right = 12, top = 10, bottom = 30;
  const X = (v) => left + ((decade(v) - x0) / (x1 - x0)) * (w - left - right), Y = (v) => top + ((y1 - decade(v)) / (y1 - y0)) * (h - top - bottom);
  context.strokeStyle = colour("--line");
  context.lineWidth = 1;
  const every = Math.max(1, Math.ceil((y1 - y0) / 5));
  context.textAlign = "right";
  for (let d = y0; d <= y1; d += every) {
    context.beginPath();
    context.moveTo(left, Y(10 ** d)); context.lineTo(w - right, Y(10 ** d));
    context.stroke();
    context.fillText(`1e${d}`, left - 5, Y(10 ** d) + 4);
  }
  context.textAlign = "center";
  const name = (v) => (axis === "steps" ? String(v) : v >= 1 ? `${v} s` : v >= 1e-3 ? `${Math.round(1e3 * v)} ms` : `${Math.round(1e6 * v)} µs`);
  for (let d = Math.floor(x0); d <= x1; d++) for (const m of x1 - x0 < 1.5 ? [1, 2, 5] : [1]) {
    const v = Number(`${m}e${d}`);
    if (decade(v) >= x0 - 1e-9 && decade(v) <= x1) context.fillText(name(v), clamp(X(v), left + 8, w - 20), h - 16);
  }
  context.fillText(axis === "steps" ? "steps of the solver" : "time", left + (w - left - right) / 2, h - 4);
  context.save();
  context.translate(10, top + (h - top - bottom) / 2);
  context.rotate(-Math.PI / 2);
  context.fillText("gap", 0, 0);
  context.restore();
  context.textAlign = "left";
  const line = (points, style) => {
    context.beginPath();
    for (const [x, y] of points) if (Number.isFinite(y)) context.lineTo(X(x), Y(y));
    context.strokeStyle = style;
    context.lineWidth = 2;
    context.stroke();
  };
  line(marks, colour("--line"));
  line(words, colour("--soft"));
  line(marks.filter(([, , k]) => k <= state.shown), colour("--strong"));
  const now = marks[state.shown];
  if (now && Number.isFinite(now[1])) {
    context.beginPath();
    context.arc(X(now[0]), Y(now[1]), 4, 0, 2 * Math.PI);
    context.fillStyle = colour("--strong");
    context.fill();
  }
}

// -- points by pointer and keyboard -----------------------------------------------------------------------------------

function place(event) {
  const box = $("plane").getBoundingClientRect();
  return { x: clamp((2 * (event.clientX - box.left)) / box.width - 1, -1, 1), y: clamp(1 - (2 * (event.clientY - box.top)) / box.height, -1, 1) };
}

function nearest(at, reach = Infinity) {
  const unit = $("plane").clientWidth / 2;
  let best = -1, distance = reach;
  state.points.forEach((p, k) => {
    const d = Math.hypot(p.x - at.x, p.y - at.y) * unit;
    if (d <= distance) [best, distance] = [k, d];
  });
  return best;
}

function add(at) {
  if (state.points.length >= state.choices.limits.points) return say(`At most ${state.choices.limits.points} points are taken.`, true);
  state.points.push({ ...at, c: state.pen || 1 });
  changed();
}

function remove(k) {
  if (k < 0) return;
  state.points.splice(k, 1);
  forget();
  changed();
}

function pointers() {
  let held = -1;
  const plane = $("plane");
  plane.addEventListener("pointerdown", (event) => {
    const at = place(event), near = nearest(at, REACH);
    state.cursor = null;
    if (event.button === 2 || state.pen === 0) return remove(near);
    if (event.button !== 0) return;
    plane.setPointerCapture(event.pointerId);
    held = near;
    if (near < 0) {
      add(at);
      held = state.points.length - 1;
    }
  });
  plane.addEventListener("pointermove", (event) => {
    if (held < 0) return;
    Object.assign(state.points[held], place(event));
    changed({ quick: true });
  });
  for (const end of ["pointerup", "pointercancel"]) plane.addEventListener(end, () => {
    if (held >= 0) changed();
    held = -1;
  });
  plane.addEventListener("contextmenu", (event) => event.preventDefault());
}

function keys(event) {
  const pace = event.shiftKey ? 0.01 : 0.05;
  const way = { ArrowLeft: [-pace, 0], ArrowRight: [pace, 0], ArrowUp: [0, pace], ArrowDown: [0, -pace] }[event.key];
  state.cursor ??= { x: 0, y: 0 };
  if (way) state.cursor = { x: clamp(state.cursor.x + way[0], -1, 1), y: clamp(state.cursor.y + way[1], -1, 1) };
  else if (event.key === "Enter" || event.key === " ") add({ ...state.cursor });
  else if (event.key === "Delete" || event.key === "Backspace") remove(nearest(state.cursor));
  else if (/^[1-6]$/.test(event.key) && Number(event.key) <= state.choices.limits.classes) choosePen(Number(event.key));
  else return;
  event.preventDefault();
  draw();
}

// -- files ------------------------------------------------------------------------------------------------------------

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function asked(path, body) {
  try {
    const answer = await post(path, body), found = await answer.json();
    if (!answer.ok) throw new Error(found.error);
    return found;
  } catch (problem) {
    say(problem instanceof TypeError ? "The server does not answer; is maxmargin toy still running?" : problem.message, true);
    return null;
  }
}

async function saveData() {
  const found = await asked("save", request({}));
  if (found) download(new Blob([found.text], { type: "text/plain" }), "toy.libsvm");
}

async function loadData(file) {
  const found = await asked("load", { machine: $("machine").value, text: await file.text() });
  if (!found) return;
  state.points = found.points.map(([x, y, c]) => ({ x, y, c }));
  forget();
  changed();
  say(`${state.points.length} points` + (found.scaled ? ", scaled into the square." : "."));
}

function picture() { // the plane, the curve of the gap and a line of words, twice as large as on the screen
  const side = $("plane").clientWidth, canvas = document.createElement("canvas"), low = 150, words = 30;
  canvas.width = 2 * side;
  canvas.height = 2 * (side + words + low);
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  drawPlane(context, side, side);
  context.fillStyle = colour("--card");
  context.fillRect(0, side, side, words + low);
  context.fillStyle = colour("--ink");
  context.font = "13px system-ui, 'DejaVu Sans', sans-serif";
  const p = state.pictures[state.shown];
  context.fillText(`${$("machine").value}, ${$("solver").value}` + (p ? `, ${p.steps} steps, gap ${p.gap === null ? "unknown" : p.gap.toExponential(1)}` : ""), 10, side + 20);
  context.translate(0, side + words);
  plotGap(context, side, low);
  return canvas;
}

// -- the address keeps the settings -----------------------------------------------------------------------------------

const KEPT = ["machine", "kernel", "solver", "C", "gamma", "epsilon", "nu", "degree", "example", "axis"];

function remember() {
  const kept = new URLSearchParams(KEPT.map((id) => [id, $(id).value]));
  history.replaceState(null, "", `#${kept}`);
}

function recall() {
  const kept = new URLSearchParams(location.hash.slice(1));
  for (const id of KEPT) {
    if (!kept.has(id)) continue;
    if (id === "solver") offer(); // those of the machine
    const before = $(id).value;
    $(id).value = kept.get(id);
    if ($(id).value === "") $(id).value = before;
  }
}

// -- the beginning ----------------------------------------------------------------------------------------------------

async function begin() {
  state.choices = await (await fetch("choices")).json();
  fill($("machine"), Object.keys(state.choices.machines));
  fill($("kernel"), state.choices.kernels);
  fill($("example"), Object.keys(EXAMPLES));
  makePens();
  recall();
  pointers();
  $("plane").addEventListener("keydown", keys);
  for (const kind of ["focus", "blur"]) $("plane").addEventListener(kind, draw);
  $("machine").addEventListener("change", () => { forget(); changed(); });
  for (const id of ["kernel", "solver", "animate"]) $(id).addEventListener("change", () => changed());
  for (const id of ["C", "gamma", "epsilon", "nu", "degree"]) {
    $(id).addEventListener("input", () => changed({ quick: true }));
    $(id).addEventListener("change", () => changed());
  }
  $("axis").addEventListener("change", () => { remember(); drawGap(); });
  $("example").addEventListener("change", () => { forget(); showExample($("example").value); });
  $("train").addEventListener("click", () => train());
  $("step").addEventListener("click", oneStep);
  $("stop").addEventListener("click", () => state.run && asked("stop", { run: state.run.name }));
  $("undo").addEventListener("click", () => remove(state.points.length - 1));
  $("clear").addEventListener("click", () => { state.points = []; forget(); changed(); });
  $("scrub").addEventListener("input", () => show(Number($("scrub").value)));
  $("save").addEventListener("click", saveData);
  $("load").addEventListener("click", () => $("file").click());
  $("file").addEventListener("change", () => { if ($("file").files[0]) loadData($("file").files[0]); $("file").value = ""; });
  $("export").addEventListener("click", () => picture().toBlob((blob) => download(blob, "toy.png")));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new ResizeObserver(draw).observe($("plane"));
  offer();
  showExample($("example").value);
}

begin().catch(() => say("The server does not answer; is maxmargin toy still running?", true));
