"use strict";
// Draws the page from its data. Data is text: it is set as text, never as markup.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const LABELS = 5; // pixels: smaller letters are not drawn
  const MOST_PAPER = 1100; // pixels: the height of the graph on paper, where it is 1360 wide
  const CROWDED = 200; // edges: from here on they are pale, and a choice shows its own alone
  const READABLE = 0.55; // the zoom from which labels can be read

  function make(tag, look, text) {
    const made = document.createElement(tag);
    if (look) made.className = look;
    if (text) sentence(made, text);
    return made;
  }

  // Names stand between backticks in sentences of admc.
  function sentence(parent, text) {
    const parts = text.split("`");
    if (parts.length % 2 === 0) { parent.append(text); return; }
    parts.forEach((part, at) => {
      if (!part) return;
      if (at % 2 === 0) { parent.append(part); return; }
      const code = document.createElement("code");
      code.textContent = part;
      parent.append(code);
    });
  }

  function named(text, node) {
    const button = make("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => { select(cy.getElementById("n" + node), true); byId("mesh").scrollIntoView(); });
    return button;
  }

  function sample(key) {
    const line = make("li"), edge = ["ingress", "egress", "both", "network", "mixed", "plain", "weaker", "refused", "came", "gone", "stricter"].includes(key.look);
    line.append(make("span", "sample " + (edge ? "line " : "") + key.look), key.text);
    return line;
  }

  // ---- sections ----

  function table(section) {
    const made = make("table");
    if (section.head.length) {
      const head = make("tr");
      section.head.forEach((text) => { const cell = make("th", "", text); cell.scope = "col"; head.append(cell); });
      made.append(head);
    }
    section.rows.forEach((cells) => {
      const line = make("tr");
      cells.forEach((cell) => {
        const made = make("td", cell.look, cell.node === null ? cell.text : "");
        if (cell.node !== null) made.append(named(cell.text, cell.node));
        line.append(made);
      });
      made.append(line);
    });
    const scroll = make("div", "scroll");
    scroll.append(made);
    return scroll;
  }

  function bar(shown) {
    const made = make("div", "bar");
    const label = make("span", "", shown.node === null ? shown.label : "");
    if (shown.node !== null) label.append(named(shown.label, shown.node));
    const track = make("span", "track"), room = make("span", "room");
    const fills = shown.solid === null ? [["", shown.fraction]] : [[" pale", shown.fraction], ["", shown.solid]];
    fills.forEach(([more, share]) => {
      const fill = make("span", "fill " + shown.look + more);
      fill.style.width = 100 * share + "%";
      room.append(fill);
    });
    if (shown.low !== null) {
      const interval = make("span", "span");
      interval.style.left = 100 * shown.low + "%";
      interval.style.width = 100 * (shown.high - shown.low) + "%";
      room.append(interval);
    }
    track.append(room, make("span", "figure", shown.text));
    made.append(label, track);
    return shown.rows.length ? opening(made, shown) : made;
  }

  // A bar that opens its table. The table is made when it is opened: a page may have thousands of rows.
  function opening(line, shown) {
    const made = make("details", "more"), summary = make("summary");
    summary.append(line);
    made.append(summary);
    made.addEventListener("toggle", () => {
      made.append(table(shown));
      if (shown.note) made.append(make("p", "quiet", shown.note));
    }, { once: true });
    return made;
  }

  function part(section, level) {
    const made = make(section.folded ? "details" : "section");
    made.append(make(section.folded ? "summary" : level, "", section.title));
    if (section.note) made.append(make("p", "quiet", section.note));
    if (section.legend.length) {
      const keys = make("ul", "legend");
      section.legend.forEach((key) => keys.append(sample(key)));
      made.append(keys);
      made.classList.add("keyed");
    }
    section.bars.forEach((each) => made.append(bar(each)));
    if (section.groups.length) {
      const groups = make("div", "groups");
      section.groups.forEach((group) => {
        const column = make("div");
        column.append(make("h3", "", group.title));
        group.bars.forEach((each) => column.append(bar(each)));
        groups.append(column);
      });
      made.append(groups);
    }
    if (section.rows.length) made.append(table(section));
    return made;
  }

  // ---- the graph ----

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif';

  // Where an edge bends, as Cytoscape wants it: along and beside the line between its ends.
  function bends(points) {
    const count = points.length / 2, [x, y] = points, dx = points[2 * count - 2] - x, dy = points[2 * count - 1] - y;
    const length = Math.hypot(dx, dy) || 1, weights = [], distances = [];
    for (let at = 1; at < count - 1; at++) {
      const px = points[2 * at] - x, py = points[2 * at + 1] - y;
      weights.push((px * dx + py * dy) / (length * length));
      distances.push((py * dx - px * dy) / length);
    }
    return { weights, distances };
  }

  function elements() {
    const found = [];
    page.nodes.forEach((node, at) => {
      const looks = [node.shape, node.adm ? "adm" : "", node.state && "a-" + node.state, node.closed ? "closed" : "", node.hosts ? "" : "nohost"];
      const data = { id: "n" + at, at, label: node.label, width: node.width, height: node.height, shift: node.sign ? (node.sign + 4) / 2 : 0 };
      found.push({ group: "nodes", data, position: { x: node.x, y: node.y }, classes: looks.filter(Boolean).join(" ") });
      if (!node.sign) return;
      const position = { x: node.x - node.width / 2 + node.sign / 2 + 7, y: node.y };
      found.push({ group: "nodes", data: { id: "s" + at, of: "n" + at, size: node.sign }, position, classes: "sign " + (node.state && "a-" + node.state), selectable: false });
    });
    page.edges.forEach((edge, at) => {
      const data = { id: "e" + at, at, source: "n" + edge.source, target: "n" + edge.target };
      const points = edge.points;
      let look = edge.look;
      if (points.length) {
        const from = page.nodes[edge.source], to = page.nodes[edge.target];
        data.from = points[0] - from.x + "px " + (points[1] - from.y) + "px";
        data.to = points[points.length - 2] - to.x + "px " + (points[points.length - 1] - to.y) + "px";
        look += " placed";
        if (points.length > 4) { Object.assign(data, bends(points)); look += " bent"; }
      }
      found.push({ group: "edges", data, classes: look });
    });
    return found;
  }

  function styles() {
    const edge = (name, tone, more) => ({ selector: "edge." + name, style: Object.assign({ "line-color": colour(tone), "target-arrow-color": colour(tone), width: 2.2, "z-index": 5 }, more) });
    const state = (name, card, tone, more) => ({ selector: "node.a-" + name, style: Object.assign({ "background-color": colour(card), "border-color": colour(tone), "border-width": 2 }, more) });
    return [
      { selector: "node[label]", style: {
        shape: "round-rectangle", width: "data(width)", height: "data(height)", label: "data(label)", "font-family": FONT,
        "font-size": 12, "text-valign": "center", "text-wrap": "wrap", "text-max-width": 1000, "text-margin-x": "data(shift)",
        color: colour("ink"), "background-color": colour("card"), "border-color": colour("edge"), "border-width": 1.2, "min-zoomed-font-size": LABELS } },
      { selector: "node.nohost", style: { "border-style": "dashed" } },
      { selector: "node.database", style: { shape: "barrel", "background-color": colour("store"), "border-color": colour("ingress") } },
      { selector: "node.external, node.callers", style: { "corner-radius": 13, "background-color": colour("sheet"), "border-style": "dotted", "border-color": colour("muted"), "border-width": 2 } },
      { selector: "node.adm", style: { "background-color": colour("adm-card"), "border-color": colour("adm"), "border-width": 2, color: colour("adm-ink"), "font-weight": 600 } },
      { selector: "node.closed", style: { "border-style": "double", "border-width": 4, "border-color": colour("egress") } },
      state("same", "card", "edge", { "border-width": 1.2 }), state("came", "came-card", "good"), state("changed", "changed-card", "changed"),
      state("gone", "gone-card", "bad", { "border-style": "dashed" }),
      { selector: "node.a-came, node.a-gone, node.a-changed", style: { color: colour("ink") } },
      { selector: "node.sign", style: { shape: "hexagon", width: "data(size)", height: "data(size)", "background-color": colour("adm"), "border-width": 0, events: "no" } },
      { selector: "node.sign.a-came", style: { "background-color": colour("good") } },
      { selector: "node.sign.a-gone", style: { "background-color": colour("bad") } },
      { selector: "node.sign.a-changed", style: { "background-color": colour("changed") } },
      { selector: "edge", style: { width: 1.2, "line-color": colour("line"), "target-arrow-color": colour("line"), "target-arrow-shape": "triangle", "arrow-scale": 0.8, "curve-style": "straight" } },
      { selector: "edge.placed", style: { "source-endpoint": "data(from)", "target-endpoint": "data(to)" } },
      { selector: "edge.bent", style: { "curve-style": "round-segments", "segment-weights": (e) => e.data("weights"), "segment-distances": (e) => e.data("distances"), "segment-radii": 30, "edge-distances": "endpoints" } },
      { selector: "edge:loop", style: { "curve-style": "bezier" } },
      edge("ingress", "ingress"), edge("egress", "egress"), edge("both", "both"), edge("network", "network", { "line-style": "dashed" }), edge("mixed", "network"),
      edge("weaker", "bad", { width: 3 }),
      edge("refused", "refused", { "line-style": "dashed" }), edge("came", "good"), edge("gone", "muted", { "line-style": "dotted" }), edge("stricter", "stricter"),
      { selector: ".other-side", style: { display: "none" } },
      { selector: "node.bare", style: { "background-color": colour("card"), "border-color": colour("edge"), "border-style": "solid", "border-width": 1.2, "font-weight": 400 } },
      ...(page.edges.length < CROWDED ? [] : [{ selector: "edge", style: { opacity: 0.35 } }, { selector: "edge.near, edge.chosen", style: { opacity: 1 } }]),
      { selector: ".dim", style: { opacity: 0.12 } },
      { selector: "edge.dim", style: { opacity: 0.05 } },
      { selector: "node.aside", style: { opacity: 0.3 } },
      { selector: "edge.aside", style: { opacity: 0.04 } },
      { selector: "node.found", style: { "border-color": colour("found"), "border-width": 4 } },
      { selector: "node.chosen", style: { "border-color": colour("focus"), "border-width": 4 } },
      { selector: "edge.chosen", style: { width: 4, "z-index": 9 } },
      { selector: "edge.near", style: { width: 3, "z-index": 8 } },
    ];
  }

  const box = byId("graph");
  // No higher than the graph needs in this width.
  const right = Math.max(1, ...page.nodes.map((node) => node.x + node.width / 2)), foot = Math.max(0, ...page.nodes.map((node) => node.y + node.height / 2));
  byId("view").style.setProperty("--height", Math.ceil(Math.min(1.4, box.clientWidth / right) * foot) + 60 + "px");
  const cy = cytoscape({
    container: box, elements: elements(), style: styles(), layout: { name: "preset", fit: false },
    autoungrabify: true, boxSelectionEnabled: false, hideEdgesOnViewport: page.edges.length > 4 * CROWDED, minZoom: 0.05, maxZoom: 4,
  });

  function showAll() { cy.fit(undefined, 16); if (cy.zoom() > 1.4) { cy.zoom(1.4); cy.center(); } }

  // The whole graph on a canvas of its own: that of the window is drawn too late for paper.
  function printed() {
    const canvas = byId("paper"), all = cy.elements().boundingBox(), width = all.w + 20, height = all.h + 20;
    const scale = Math.min(canvas.width / width, MOST_PAPER / height, 2.4);
    canvas.height = Math.ceil(scale * height);
    const pan = { x: canvas.width / 2 - scale * (all.x1 + all.w / 2), y: canvas.height / 2 - scale * (all.y1 + all.h / 2) };
    const context = canvas.getContext("2d");
    cy.renderer().renderTo(context, scale, pan, 1);
  }

  function zoom(factor) {
    cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }

  // ---- choosing ----

  function select(target, move) {
    cy.elements().removeClass("chosen near aside");
    const panel = byId("panel");
    panel.replaceChildren();
    panel.className = !target || target.empty() ? "empty" : "";
    if (panel.className) { hint(panel); return; }
    target.addClass("chosen");
    target.connectedEdges().addClass("near");
    if (page.edges.length >= CROWDED) {
      const kept = target.isNode() ? target.closedNeighborhood() : target.union(target.connectedNodes());
      const signs = kept.nodes().map((node) => cy.getElementById("s" + node.data("at")));
      cy.batch(() => { cy.elements().not(kept).addClass("aside"); signs.forEach((sign) => sign.removeClass("aside")); });
    }
    const shown = target.isNode() ? page.nodes[target.data("at")] : page.edges[target.data("at")];
    const title = make("h2");
    title.textContent = target.isNode() ? shown.name : shown.title;
    panel.append(title, ...shown.panel.map((section) => part(section, "h3")));
    panel.scrollTop = 0;
    if (move) { if (cy.zoom() < READABLE) cy.zoom(READABLE); cy.center(target); }
  }

  function hint(panel) {
    panel.append(make("p", "quiet", "Choose a service or a call. Keys, once the graph has the focus: arrows go from service to service, + and - zoom, 0 shows all, Escape ends a choice; / searches."));
  }

  // The nearest node in a direction: steps aside count double.
  function neighbour(dx, dy) {
    const nodes = cy.nodes(".service, .database, .external, .callers").not(".dim");
    const chosen = cy.nodes(".chosen");
    if (chosen.empty()) return nodes.min((node) => node.position("x") * 10 + node.position("y")).ele;
    const from = chosen.position();
    let best = null, least = Infinity;
    nodes.not(chosen).forEach((node) => {
      const x = node.position("x") - from.x, y = node.position("y") - from.y;
      const along = x * dx + y * dy, aside = Math.abs(x * dy - y * dx);
      if (along > 1 && along + 2 * aside < least) { least = along + 2 * aside; best = node; }
    });
    return best || chosen;
  }

  // ---- searching ----

  let hits = [], hit = -1;

  function filter() {
    const text = byId("search").value.trim().toLowerCase(), policy = byId("policy").value, only = byId("only").checked;
    const about = (shown) => (policy === "" || shown.policies.includes(Number(policy)));
    hits = [];
    hit = -1;
    cy.batch(() => {
      cy.elements().removeClass("dim found");
      const kept = new Set();
      page.nodes.forEach((node, at) => { if (about(node) && (!only || node.adm)) kept.add(at); });
      page.edges.forEach((edge, at) => {
        const met = policy !== "" ? about(edge) : !only || (page.nodes[edge.source].adm && page.nodes[edge.target].adm);
        if (!met) { cy.getElementById("e" + at).addClass("dim"); return; }
        if (policy !== "" && !only) { kept.add(edge.source); kept.add(edge.target); }
      });
      page.nodes.forEach((node, at) => {
        const matches = text && node.name.toLowerCase().includes(text);
        if (matches) { hits.push(at); cy.getElementById("n" + at).addClass("found"); }
        if (kept.has(at)) return;
        cy.getElementById("n" + at).addClass("dim");
        cy.getElementById("s" + at).addClass("dim");
      });
    });
    byId("matches").textContent = text ? hits.length + (hits.length === 1 ? " match" : " matches") + (hits.length ? "; Enter goes to the next" : "") : "";
  }

  // Of a difference, one side alone: without the calls and ADMs that only the other one has.
  function showSide() {
    const side = byId("side").value, absent = { base: "came", head: "gone" }[side];
    cy.batch(() => {
      cy.elements().removeClass("other-side bare");
      if (!absent) return;
      cy.edges().filter((edge) => ![side, ""].includes(page.edges[edge.data("at")].only)).addClass("other-side");
      cy.nodes(".a-" + absent).addClass("bare").filter(".sign").addClass("other-side");
    });
  }

  function next() {
    if (!hits.length) return;
    hit = (hit + 1) % hits.length;
    select(cy.getElementById("n" + hits[hit]), true);
  }

  // ---- the page ----

  byId("title").textContent = page.title;
  page.facts.forEach((text) => byId("facts").append(make("li", "", text)));
  page.doubts.forEach((text) => byId("doubts").append(make("li", "", text)));
  byId("mesh").classList.toggle("bare", !page.nodes.length);
  byId("graph-note").textContent = page.graph_note;
  page.legend.forEach((key) => byId("legend").append(sample(key)));
  page.policies.forEach((name, at) => {
    const option = make("option");
    option.value = String(at);
    option.textContent = name;
    byId("policy").append(option);
  });
  page.lead.forEach((section) => byId("lead").append(part(section, "h2")));
  byId("sides").hidden = !page.compares;
  if (page.compares) byId("only-text").textContent = "only changed ADMs";
  page.sections.forEach((section) => byId("sections").append(part(section, "h2")));

  cy.on("tap", (event) => select(event.target === cy ? null : event.target));
  cy.on("mouseover", "node, edge", () => { box.style.cursor = "pointer"; });
  cy.on("mouseout", "node, edge", () => { box.style.cursor = ""; });
  byId("tools").addEventListener("submit", (event) => { event.preventDefault(); next(); });
  byId("search").addEventListener("input", filter);
  byId("policy").addEventListener("change", filter);
  byId("only").addEventListener("change", filter);
  byId("side").addEventListener("change", showSide);
  byId("in").addEventListener("click", () => zoom(1.3));
  byId("out").addEventListener("click", () => zoom(1 / 1.3));
  byId("fit").addEventListener("click", showAll);
  const keys = {
    ArrowRight: () => select(neighbour(1, 0), true), ArrowLeft: () => select(neighbour(-1, 0), true),
    ArrowDown: () => select(neighbour(0, 1), true), ArrowUp: () => select(neighbour(0, -1), true),
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: showAll, Escape: () => select(null),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    event.preventDefault();
    byId("search").focus();
  });

  const redraw = () => cy.style(styles());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not(.more)").forEach((each) => { each.open = true; });
    document.documentElement.classList.add("paper");
    redraw();
    if (page.nodes.length) printed();
  });
  window.addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); redraw(); });
  cy.ready(() => { showAll(); select(null); document.documentElement.dataset.ready = "yes"; });
  window.admcReport = { cy, page, select }; // for tests and for a reader's console
})();
