"use strict";
(() => {
const read = id => JSON.parse(document.getElementById(id).textContent);
const data = read("data"), specs = read("specs"), models = data.models;
const at = id => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const state = { k: data.start, before: null, left: null, right: null, parts: null };
const views = {};
const svgName = "http://www.w3.org/2000/svg";

// -- small things ------------------------------------------------------------------------------------------------------

/** An element with text and attributes; text only ever goes through textContent. */
function make(tag, options = {}, ...children) {
  const node = options.svg ? document.createElementNS(svgName, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (key === "text") node.textContent = value;
    else if (key !== "svg") node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}
const glyph = model => make("svg", { svg: 1, class: `glyph c${model.c}`, viewBox: "-8 -8 16 16", "aria-hidden": "true" },
  make("use", { svg: 1, href: `#s${model.s}` }));
function shown(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const text = value !== 0 && Math.abs(value) < 1e-4 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}
const signed = value => (value > 0 ? "+" : "") + shown(value, 3);
const share = value => `${shown(100 * value, 3)} %`;
const words = list => list.length < 2 ? list.join("") : `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`;
const binWords = m => m === null ? "no bin count" : m === 1 ? "1 bin" : `${m} bins`;

/** The index of the bin count nearest below the chosen one: not everything is measured at every count. */
function place(counts, k) {
  if (counts[0] === null) return 0;
  let best = 0;
  counts.forEach((m, i) => { if (m <= data.counts[k]) best = i; });
  return best;
}

// -- charts --------------------------------------------------------------------------------------------------------------

/** Colours are names of the style sheet's own, so that charts follow light, dark and print without being drawn anew. */
const ink = "var(--ink)", soft = "var(--soft)", line = "var(--line)";
const theme = {
  background: null,
  font: getComputedStyle(document.documentElement).getPropertyValue("--font").trim(),
  range: { category: [0, 1, 2, 3, 4, 5, 6, 7].map(i => `var(--c${i})`),
    symbol: ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"] },
  view: { stroke: null },
  axis: { labelColor: ink, titleColor: soft, gridColor: line, domainColor: line, tickColor: line, labelFontSize: 12,
    titleFontSize: 12, titleFontWeight: "normal", gridOpacity: 0.8 },
  text: { color: ink, fill: ink, fontSize: 12 }, rule: { color: ink }, tick: { color: ink },
};
const tip = at("tip");
function showTip(handler, event, item, value) {
  if (value === null || value === undefined || value === "" || !event) { tip.hidden = true; return; }
  const rows = typeof value === "object" ? Object.entries(value) : [["", String(value)]];
  tip.replaceChildren(...rows.map(([key, text]) => make("div", {}, make("span", { text: key }), make("bdi", { text: String(text) }))));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
  tip.style.top = `${Math.max(4, event.clientY + 16 + box.height > innerHeight ? event.clientY - box.height - 12 : event.clientY + 16)}px`;
}
/** The page says data-ready="yes" while nothing is being drawn: before that it should be neither printed nor compared. */
let drawing = 0;
function busy(job) {
  drawing++;
  document.documentElement.dataset.ready = "no";
  return job.finally(() => { if (--drawing === 0) document.documentElement.dataset.ready = "yes"; });
}
/** Draw a chart anew in its element: width of the element, data by name. Charts queue up so that they never overlap.
    What lies folded has no width and is drawn when it is opened. */
function draw(id, name, datasets, size) {
  const element = at(id);
  if (!element?.clientWidth) return Promise.resolve();
  const turn = busy((views[id]?.turn ?? Promise.resolve()).then(async () => {
    const spec = structuredClone(specs[name]);
    Object.assign(spec, { width: Math.max(200, element.clientWidth), datasets, ...size(element.clientWidth) });
    views[id]?.result?.finalize();
    const result = await vegaEmbed(element, spec, { mode: "vega-lite", ast: true, actions: false, renderer: "svg",
      defaultStyle: false, tooltip: showTip, config: theme });
    views[id].result = result;
  }));
  views[id] = { ...views[id], turn, again: () => draw(id, name, datasets, size) };
  return turn;
}
/** Put new data into a chart that is drawn. */
function refresh(id, datasets) {
  const view = views[id];
  if (!view) return Promise.resolve();
  view.turn = busy(view.turn.then(async () => {
    for (const [key, rows] of Object.entries(datasets)) view.result.view.data(key, rows);
    await view.result.view.resize().runAsync();
  }));
  return view.turn;
}

// -- rankings -----------------------------------------------------------------------------------------------------------

const several = Boolean(at("list-left"));
const rowHeight = models.length > 12 ? 34 : 40;
document.documentElement.style.setProperty("--row", `${rowHeight - 6}px`);
const sides = ["left", "right"];
const waysOf = { left: Object.keys(data.ways).filter(name => !data.ways[name].truthful),
  right: Object.keys(data.ways).filter(name => data.ways[name].truthful).toSorted((a, b) => b.endsWith(" loss") - a.endsWith(" loss")) };

function fillChoices(select, names, labels, chosen) {
  if (!select) return null;
  select.replaceChildren(...names.map(name => make("option", { value: name, text: labels[name].label })));
  select.value = names.includes(chosen) ? chosen : names[0];
  return select.value;
}
/** The order, ranks and values of one side at the k-th count of the control. */
function standing(side, k) {
  const way = data.ways[state[side]], at = place(way.counts, k);
  return { way, m: way.counts[at], order: way.order[at], ranks: way.ranks[at], values: way.values[at] };
}
/** "1", "2", "2=": models with the same value share a place. */
function places(ranks, order) {
  const first = {}, many = {};
  order.forEach((i, row) => { first[ranks[i]] ??= row + 1; many[ranks[i]] = (many[ranks[i]] ?? 0) + 1; });
  return i => `${first[ranks[i]]}${many[ranks[i]] > 1 ? "=" : ""}`;
}
function fillList(side) {
  const list = at(`list-${side}`), { order, ranks, values } = standing(side, state.k);
  const then = state.before === null ? null : standing(side, state.before).order;
  const old = new Map([...list.children].map(node => [Number(node.dataset.model), node.getBoundingClientRect().top]));
  const name = places(ranks, order);
  list.replaceChildren(...order.map((i, row) => {
    const moved = then === null ? 0 : then.indexOf(i) - row;
    const node = make("li", { "data-model": i, title: models[i].name }, make("span", { class: "place", text: name(i) }),
      glyph(models[i]), make("bdi", { class: "name", text: models[i].name }), make("span", { class: "value", text: shown(values[i], 3) }),
      make("span", { class: `move ${moved > 0 ? "up" : "down"}`, text: moved ? `${moved > 0 ? "▲" : "▼"}${Math.abs(moved)}` : "" }));
    if (moved) node.classList.add("moved");
    return node;
  }));
  if (calm.matches) return;
  for (const node of list.children) {
    const from = old.get(Number(node.dataset.model)), to = node.getBoundingClientRect().top;
    if (from === undefined || from === to) continue;
    node.style.zIndex = 2;
    node.animate([{ transform: `translateY(${from - to}px)` }, { transform: "none" }], { duration: 650, easing: "cubic-bezier(.3,.9,.3,1)" });
  }
}
let slopeAt = null, slopeFrame = 0;
function fillSlope() {
  const orders = sides.map(side => standing(side, state.k).order);
  const target = models.map((_, i) => orders.map(order => order.indexOf(i)));
  const from = slopeAt ?? target, svg = at("slope"), start = performance.now();
  cancelAnimationFrame(slopeFrame);
  svg.style.height = `${rowHeight * models.length}px`;
  const step = time => {
    const done = calm.matches ? 1 : Math.min(1, (time - start) / 650), ease = 1 - (1 - done) ** 3, wide = svg.clientWidth || 130;
    slopeAt = target.map((ends, i) => ends.map((end, j) => from[i][j] + (end - from[i][j]) * ease));
    svg.replaceChildren(...slopeAt.map((ends, i) => {
      const [a, b] = ends.map(row => row * rowHeight + (rowHeight - 6) / 2);
      return make("path", { svg: 1, style: `stroke:var(--c${models[i].c})`, "stroke-dasharray": ["", "7 4", "2 4", "9 3 2 3"][models[i].d],
        d: `M2 ${a} C${wide * .45} ${a} ${wide * .55} ${b} ${wide - 2} ${b}` });
    }));
    if (done < 1) slopeFrame = requestAnimationFrame(step);
  };
  if (calm.matches) step(start); else slopeFrame = requestAnimationFrame(step);
}
function disagreements(a, b) {
  let found = 0;
  for (let i = 0; i < models.length; i++) for (let j = 0; j < i; j++) if ((a[i] - a[j]) * (b[i] - b[j]) < 0) found++;
  return found;
}
const pairsOfModels = models.length * (models.length - 1) / 2;
function sayRanking() {
  const now = sides.map(side => standing(side, state.k));
  const parts = now.map(({ way, m, order }) => {
    const where = m === data.counts[state.k] || m === null ? "" : ` (measured at ${binWords(m)})`;
    return `${way.short}${where} puts ${models[order[0]].name} first, ${models[order.at(-1)].name} last`;
  });
  let text = `At ${binWords(data.counts[state.k] ?? null)} ${parts.join("; ")}. They disagree on ${disagreements(now[0].ranks, now[1].ranks)} of ${pairsOfModels} pairs.`;
  if (state.before !== null && state.before !== state.k) {
    const turned = now.map(({ way, ranks }, j) => `${disagreements(standing(sides[j], state.before).ranks, ranks)} under ${way.short}`);
    text += ` Pairs that changed places since ${binWords(data.counts[state.before])}: ${words(turned)}.`;
  }
  at("said").textContent = text;
}
function showRankings() {
  for (const side of sides) fillList(side);
  fillSlope();
  sayRanking();
}
function lineRows(name) {
  const way = data.ways[name], last = way.counts.length - 1, rows = [], names = [];
  way.counts.forEach((m, k) => models.forEach((model, i) => {
    const row = { i, m: m ?? "any", bins: binWords(m), rank: way.ranks[k][i], shown: shown(way.values[k][i]), name: model.name,
      label: model.label, c: model.c, s: model.s, d: model.d };
    rows.push(row);
    if (k === last) names.push(row);
  }));
  return { lines: rows, names: spread(names) };
}
/** Names of models that tie share one line of text, so that they do not cover each other. */
function spread(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.rank, [...(found.get(row.rank) ?? []), row]);
  return [...found.values()].map(group => ({ ...group[0], label: group.map(row => row.label).join(", ") }));
}
const nowRow = side => [{ m: standing(side, state.k).m ?? "any" }];
function drawBump(side) {
  if (!at(`bump-${side}`)) return Promise.resolve();
  at(`bump-${side}-name`).textContent = data.ways[state[side]].label;
  return draw(`bump-${side}`, "bump", { ...lineRows(state[side]), now: nowRow(side) }, width => {
    const right = Math.round(Math.min(170, width * 0.34));
    const spec = structuredClone(specs.bump.layer);
    spec.at(-1).mark.limit = right - 8;
    return { layer: spec, padding: { left: 4, right: 14, top: 6, bottom: 4 }, height: Math.max(190, 70 + 27 * models.length) };
  });
}

// -- loss + U -----------------------------------------------------------------------------------------------------------

function partRows() {
  const error = data.parts[state.parts], k = place(error.counts, state.k);
  return data.board.map((i, order) => {
    const get = key => error[key][k][i], model = models[i], loss = get("loss"), U = get("U"), gap = get("gap");
    const range = (key, show) => get(`${key}_low`) === null ? "" : ` (${show(get(`${key}_low`))} to ${show(get(`${key}_high`))})`;
    return { order, label: model.label, name: model.name, c: model.c, s: model.s, zero: 0, loss, U, sum: loss + U,
      low: loss + (get("U_low") ?? U), high: loss + (get("U_high") ?? U), sign: U < 0 ? "U below 0" : "U above 0",
      gap, gap_low: get("gap_low") ?? gap, gap_high: get("gap_high") ?? gap, loss_shown: shown(loss),
      U_shown: signed(U) + range("U", signed), gap_shown: shown(gap, 3) + range("gap", value => shown(value, 3)),
      test: model.test, direction: model.direction };
  });
}
function drawParts() {
  if (!state.parts) return Promise.resolve();
  const error = data.parts[state.parts];
  at("parts-bins").textContent = binWords(error.counts[place(error.counts, state.k)]);
  const size = () => ({ height: Math.max(130, 62 + 30 * models.length) });
  return Promise.all([draw("decomposition", "decomposition", { parts: partRows() }, size),
    draw("gap", "gap", { parts: partRows(), origin: [{ zero: 0 }] }, size)]);
}

// -- the chain ----------------------------------------------------------------------------------------------------------

function chainRows() {
  return sides.flatMap(side => {
    const { way, ranks } = standing(side, state.k);
    return data.chain.map((i, step) => ({ place: step, label: models[i].label, name: models[i].name, rank: ranks[i],
      kind: side === "left" ? "ece" : "truthful", way: way.short }));
  });
}
function drawChain() {
  if (!at("chain")) return Promise.resolve();
  for (const side of sides) at(`chain-${side}`).textContent = data.ways[state[side]].short;
  return draw("chain", "chain", { places: chainRows() }, width => {
    const layer = structuredClone(specs.chain.layer), flat = width / data.chain.length > 140;
    for (const part of layer) part.encoding.x.axis.labelAngle = flat ? 0 : -40;
    return { layer, height: Math.max(220, 90 + 20 * models.length) };
  });
}

// -- reliability --------------------------------------------------------------------------------------------------------

const diagrams = Object.entries(data.reliability);
function fillViews() {
  const select = at("view");
  for (const [name, found] of diagrams) {
    if (found.names) {
      found.names.forEach((text, k) => select.append(make("option", { value: `${name} ${k}`, text })));
      continue;
    }
    if (!found.by_class) {
      const what = name === "binary" ? "the positive class" : "confidence in the top class";
      select.append(make("option", { value: `${name} 0`, text: what }));
      continue;
    }
    found.views.forEach((j, k) => select.append(make("option", { value: `${name} ${k}`, text: data.classes ? `class ${data.classes[j]}` : `class ${j}` })));
    if (found.left_out) select.append(make("option", { disabled: "", text: `${found.left_out} rarer classes are left out` }));
  }
  if (diagrams.length) select.value = `${diagrams[0][0]} ${diagrams[0][1].start}`;
}
function binRows(model, name, view) {
  const [xs, ys, lows, highs, counts] = data.reliability[name].models[model][view], unit = data.scale;
  return xs.map((x, b) => {
    const out = lows !== null && (ys[b] < lows[b] || ys[b] > highs[b]);
    return { x: x / unit, y: ys[b] / unit, low: lows ? lows[b] / unit : x / unit, high: highs ? highs[b] / unit : x / unit,
      c: models[model].c, n: counts[b], where: lows === null ? "no band" : out ? "outside" : "inside", x_shown: share(x / unit), y_shown: share(ys[b] / unit),
      band: lows ? `${share(lows[b] / unit)} to ${share(highs[b] / unit)}` : "no band" };
  });
}
function drawDiagram(slot) {
  const chosen = at(`model-${slot}`);
  if (!chosen) return Promise.resolve();
  const [name, view] = at("view").value.split(" "), model = Number(chosen.value);
  const rows = binRows(model, name, Number(view));
  const out = rows.filter(row => row.where === "outside").length;
  const band = rows.some(row => row.where !== "no band");
  at("banded").hidden = !band;
  at("barred").hidden = !data.reliability[name].histograms[model];
  const counts = rows.map(row => row.n), least = Math.min(...counts), most = Math.max(...counts);
  const each = least === most ? `${most} samples each` : `${least} to ${most} samples each`;
  at(`told-${slot}`).textContent = band
    ? `${models[model].name}: ${out} of ${rows.length} bins outside the band, ${shown((1 - data.level) * rows.length, 2)} expected if calibrated; ${each}.`
    : `${models[model].name}: ${rows.length} bins, no band; ${each}.`;
  const { axes, histograms } = data.reliability[name], bars = histograms[model] ?? [], tallest = Math.max(...bars, 1e-9);
  const histogram = bars.map((n, i) => ({ left: i / bars.length, right: (i + 0.9) / bars.length, zero: 0, top: n / tallest / 8 }));
  const numbers = rows.map(row => `${axes[0]} ${row.x_shown}, ${axes[1]} ${row.y_shown}`).join("; ");
  const kind = at("stretch").checked ? "reliability_sqrt" : "reliability_linear", label = `Reliability diagram of ${models[model].name}: ${numbers}`;
  return draw(`diagram-${slot}`, kind, { bins: rows, histogram, diagonal: [0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1].map(v => ({ x: v, y: v })) }, width => {
    const layer = structuredClone(specs[kind].layer);
    for (const { encoding } of layer) {
      if (encoding.x.axis) encoding.x.axis.title = axes[0];
      if (encoding.y.axis) encoding.y.axis.title = axes[1];
    }
    return { layer, description: label, height: Math.min(width, 520) * 0.8 };
  });
}
const slots = [0, 1, 2].filter(slot => at(`model-${slot}`));
const drawDiagrams = () => Promise.all(slots.map(drawDiagram));

// -- the control --------------------------------------------------------------------------------------------------------

async function follow(k) {
  if (k === state.k) return;
  state.before = state.k;
  state.k = k;
  const m = data.counts[k], slider = at("bins");
  slider.value = k;
  slider.setAttribute("aria-valuetext", binWords(m));
  at("bins-shown").textContent = m;
  showRankings();
  await Promise.all([...sides.map(side => refresh(`bump-${side}`, { now: nowRow(side) })),
    refresh("chain", { places: chainRows() }), at("details").open ? drawParts() : null]);
}
let playing = 0;
function play(on) {
  clearInterval(playing);
  playing = on ? setInterval(() => follow((state.k + 1) % data.counts.length), 1500) : 0;
  at("play").setAttribute("aria-pressed", String(on));
}
const drawDetails = () => Promise.all([several ? drawChain() : null, drawParts()]);

async function start() {
  if (several) {
    const first = { left: data.ece, right: `${data.headline} loss` };
    for (const side of sides) {
      if (!waysOf[side].length) {  // all errors are truthful, or none is
        waysOf[side] = Object.keys(data.ways);
        at(side).previousElementSibling.textContent = at(sides.find(other => other !== side)).previousElementSibling.textContent;
      }
      state[side] = fillChoices(at(side), waysOf[side], data.ways, first[side]);
      at(side).addEventListener("change", event => {
        state[side] = event.target.value;
        state.before = null;
        showRankings();
        drawBump(side);
        drawChain();
      });
    }
    showRankings();
  }
  state.parts = fillChoices(at("parts-error"), Object.keys(data.parts), data.parts, data.headline);
  at("parts-error")?.addEventListener("change", event => { state.parts = event.target.value; drawParts(); });
  at("bins")?.addEventListener("input", event => follow(Number(event.target.value)));
  at("play")?.addEventListener("click", () => play(!playing));
  at("details").addEventListener("toggle", () => { if (at("details").open) drawDetails(); });
  if (at("view")) startDiagrams();
  await Promise.all([drawDiagrams(), ...(several ? sides.map(drawBump) : [])]);
  let width = innerWidth, timer = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(timer);
    timer = setTimeout(redraw, 150);
  });
}
function startDiagrams() {
  fillViews();
  for (const slot of slots) {
    const select = at(`model-${slot}`);
    select.replaceChildren(...data.board.map(i => make("option", { value: i, text: models[i].name })));
    select.value = data.board[slot];
    select.addEventListener("change", () => drawDiagram(slot));
  }
  at("view").addEventListener("change", event => {
    const found = data.reliability[event.target.value.split(" ")[0]];
    at("stretch").checked = found.by_class && !found.names;
    drawDiagrams();
  });
  at("stretch").addEventListener("change", drawDiagrams);
}
async function redraw() {
  if (several) fillSlope();
  await Promise.all(Object.values(views).map(view => view.again()));
}
busy(start());
})();
