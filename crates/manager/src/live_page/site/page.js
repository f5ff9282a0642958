// The live page. Everything that is shown is made from text nodes: nothing that comes from the cluster is ever read as HTML.

import { ask, follow } from "./stream.js";

const TOKEN = "kruise-token";
const NAMESPACE = "kruise-namespace";
const MOST_PODS = 400;
const main = document.getElementById("main");
let leave = () => {};

// -- elements

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

const state = (label, tone) => make("span", { class: "state", "data-tone": tone }, label);
const note = (text) => (text ? make("div", { class: "note" }, text) : "");

function age(created) {
  if (!created) return "";
  const seconds = Math.max(0, Date.now() / 1000 - created);
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit}`;
  }
  return `${Math.floor(seconds)} s`;
}

function time(created) {
  const moment = new Date(created * 1000);
  return make("time", { datetime: moment.toISOString() }, moment.toLocaleString());
}

function speak(text) {
  document.getElementById("spoken").textContent = text;
}

function link(word, tone, title) {
  const element = document.getElementById("link");
  if (element.textContent === word) return;
  element.textContent = word;
  element.dataset.tone = tone;
  element.className = "state";
  element.title = title || "";
}

function connection(word, message) {
  if (word === "live") link("Live", "good");
  else if (word === "broken") link("Not connected", "bad", message);
  else link("Connecting", "busy");
}

function greet(hello) {
  document.getElementById("who").textContent = hello.reader;
  document.getElementById("version").textContent = `kruise-manager ${hello.version}${hello.leads ? ", leads" : ""}`;
}

// Calls back once per frame, however often it is asked.
function gathered(render) {
  let planned = false;
  return () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      render();
    });
  };
}

// -- rows that know their place

class Rows {
  constructor(body, key, row) {
    Object.assign(this, { body, key, row, items: new Map(), kept: new Set(), filter: () => true });
  }
  put(item) {
    const key = this.key(item);
    this.kept.add(key);
    const before = this.items.get(key);
    const element = this.row(item);
    element.dataset.key = key;
    element.hidden = !this.filter(item);
    this.items.set(key, { item, element });
    if (before) return before.element.replaceWith(element);
    const keys = [...this.body.children];
    let [low, high] = [0, keys.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys[middle].dataset.key < key) low = middle + 1;
      else high = middle;
    }
    this.body.insertBefore(element, keys[low] || null);
  }
  remove(key) {
    this.items.get(key)?.element.remove();
    this.items.delete(key);
  }
  // What was not told of since the last beginning is gone.
  whole() {
    for (const key of [...this.items.keys()]) if (!this.kept.has(key)) this.remove(key);
  }
  begin() {
    this.kept.clear();
  }
  sift(filter) {
    this.filter = filter;
    for (const { item, element } of this.items.values()) element.hidden = !filter(item);
  }
}

// On a phone rows are blocks, for which browsers have to be told that they still are a table.
function table(caption, heads) {
  const cells = heads.map((head) => make("th", { scope: "col", role: "columnheader", class: head.number && "number" }, head.name));
  const body = make("tbody", { role: "rowgroup" });
  const whole = make(
    "table",
    { role: "table" },
    make("caption", { class: "hidden" }, caption),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, ...cells)),
    body,
  );
  return [whole, body];
}

const row = (...cells) => make("tr", { role: "row" }, ...cells);
const cell = (label, ...children) => make("td", { role: "cell", "data-label": label }, ...children);
const number = (label, value) => make("td", { role: "cell", class: "number", "data-label": label }, String(value));

function bar(label, done, of) {
  const whole = of > 0 && done >= of;
  return make("progress", { max: Math.max(of, 1), value: Math.max(0, Math.min(done, of)), "data-whole": String(whole), "aria-label": `${label}: ${done} of ${of}` });
}

// -- tables

function workloadRow(item) {
  const kept = item.expected < item.wanted ? ` (${item.wanted - item.expected} kept back)` : "";
  return row(
    cell("", make("a", { href: `#/workload/${item.kind}/${encodeURIComponent(item.namespace || "-")}/${item.name}` }, item.name), note(`${item.kind}${item.namespace ? ` in ${item.namespace}` : ""}`)),
    cell("", state(item.state.label, item.state.tone), note(item.state.note)),
    cell("updated", `${item.updated} of ${item.expected} ${item.unit}${kept}`, bar("updated", item.updated, item.expected)),
    number("ready", item.ready),
    number("available", item.available),
    number("wanted", item.wanted),
    cell("age", age(item.created)),
  );
}

function budgetRow(item) {
  return row(
    cell("", item.name, note(item.namespace)),
    cell("protects", item.protects, note(item.rule)),
    cell("", state(item.note, item.tone)),
    number("allowed", item.allowed),
    number("available", item.available),
    number("have to be", item.desired),
  );
}

function jobRow(item) {
  return row(
    cell("", item.name, note(item.namespace)),
    cell("image", make("code", {}, item.image)),
    cell("", state(item.state.label, item.state.tone), note(item.state.note)),
    cell("nodes", `${item.succeeded} of ${item.desired}`, bar("pulled", item.succeeded, item.desired)),
    number("pulling", item.active),
    number("failed", item.failed),
  );
}

function nodeRow(item) {
  const open = item.images.filter((image) => image.tone !== "good");
  const pulls = open.map((image) =>
    make("li", {}, make("code", {}, image.image), " ", state(image.phase, image.tone), image.phase === "Pulling" ? ` ${image.progress} %` : "", note(image.message)),
  );
  return row(
    cell("", item.name),
    cell("has", `${item.succeeded} of ${item.desired}`, bar("images", item.succeeded, item.desired)),
    number("pulling", item.pulling),
    number("failed", item.failed),
    cell("", pulls.length ? make("ul", { class: "changes" }, ...pulls) : ""),
  );
}

const named = (name, isNumber) => ({ name, number: isNumber });
const byName = (item) => `${item.namespace || ""}/${item.name}`;

const TABLES = {
  workloads: {
    title: "Workloads",
    parts: {
      workload: { heads: [named("Workload"), named("State"), named("Updated"), named("Ready", 1), named("Available", 1), named("Wanted", 1), named("Age")], row: workloadRow, key: (item) => `${item.namespace || ""}/${item.name}/${item.kind}` },
    },
  },
  budgets: {
    title: "Budgets",
    parts: {
      budget: { heads: [named("Budget"), named("Protects"), named("Stands"), named("Allowed", 1), named("Available", 1), named("Have to be", 1)], row: budgetRow, key: byName },
    },
  },
  images: {
    title: "Images",
    parts: {
      job: { title: "Pull jobs", kind: "ImagePullJob", heads: [named("Job"), named("Image"), named("State"), named("Nodes"), named("Pulling", 1), named("Failed", 1)], row: jobRow, key: byName },
      node: { title: "Nodes", kind: "NodeImage", heads: [named("Node"), named("Images"), named("Pulling", 1), named("Failed", 1), named("Not there yet")], row: nodeRow, key: (item) => item.name },
    },
  },
};

function showTable(name, token) {
  const about = TABLES[name];
  const chosen = sessionStorage.getItem(NAMESPACE) || "";
  const search = make("input", { type: "search", id: "search", autocomplete: "off" });
  const namespace = make("input", { id: "namespace", value: chosen, autocomplete: "off", placeholder: "all", pattern: "[a-z0-9\\-]*" });
  const form = make("form", { role: "search", onsubmit: choose }, make("label", {}, "Find", search), make("label", {}, "Namespace", namespace), make("button", {}, "Show"));
  const calm = make("p", { class: "calm" }, "Loading…");
  const parts = {};
  const sections = Object.entries(about.parts).map(([event, part]) => {
    const [whole, body] = table(part.title || about.title, part.heads);
    parts[event] = new Rows(body, part.key, part.row);
    return make("section", {}, part.title ? make("h3", {}, part.title) : "", whole);
  });
  main.replaceChildren(make("h2", {}, about.title), form, ...sections, calm);
  let isWhole = false;
  let isCut = false;
  const tell = gathered(() => {
    const all = Object.values(parts).reduce((sum, rows) => sum + rows.items.size, 0);
    calm.hidden = all > 0 && !isCut;
    if (isCut) calm.textContent = "There are too many namespaces to ask about each: choose one.";
    else if (isWhole) calm.textContent = "There is nothing here that you may see.";
  });
  function choose(event) {
    event.preventDefault();
    sessionStorage.setItem(NAMESPACE, namespace.value.trim());
    open();
  }
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (item) => {
      const text = `${item.kind || ""} ${item.namespace || ""} ${item.name} ${item.state?.label || ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    for (const rows of Object.values(parts)) rows.sift(fits);
  });
  const query = chosen ? `?namespace=${encodeURIComponent(chosen)}` : "";
  return follow(`api/tables/${name}${query}`, token, {
    ...common,
    event(event, data) {
      if (event === "hello") {
        greet(data);
        for (const rows of Object.values(parts)) rows.begin();
      } else if (event === "whole") {
        for (const rows of Object.values(parts)) rows.whole();
        [isWhole, isCut] = [true, data.cut];
      } else if (event === "gone") {
        for (const [part, rows] of Object.entries(parts)) {
          const { kind } = about.parts[part];
          if (!kind || kind === data.kind) rows.remove(rows.key(data));
        }
      } else parts[event]?.put(data);
      tell();
    },
  });
}

// -- one workload

function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value));
}

function podItem(pod) {
  const ready = pod.containers.filter((container) => container.ready).length;
  const images = pod.containers.map((container) => make("div", { class: "note" }, `${container.name}: `, make("code", {}, container.image)));
  return make(
    "li",
    { "data-updated": String(pod.updated) },
    make("b", {}, pod.name),
    state(pod.state, pod.tone),
    note(pod.hook && `It ${pod.hook}.`),
    note(`${pod.updated ? "updated" : "not updated"}, revision ${pod.revision || "unknown"}`),
    note(`${ready} of ${pod.containers.length} containers ready, ${pod.restarts} restarts`),
    note(pod.node ? `node ${pod.node}` : "no node yet"),
    ...images,
  );
}

function revisionItem(revision) {
  const marks = [revision.isUpdate && "wanted", revision.isCurrent && "reached"].filter(Boolean);
  const changes = revision.changes.map((change) => {
    const path = make("code", {}, change.path);
    if (change.hidden) return make("li", {}, path, ` ${change.what} (its value is not shown)`);
    const from = change.from === undefined ? "" : make("del", {}, change.from);
    const to = change.to === undefined ? "" : make("ins", {}, change.to);
    return make("li", {}, path, ` ${change.what}: `, from, from && to ? " → " : "", to);
  });
  const more = revision.more ? make("li", {}, `and ${revision.more} more`) : "";
  return make(
    "li",
    {},
    make("b", {}, `${revision.number}`),
    " ",
    make("code", {}, revision.name),
    marks.length ? ` (${marks.join(", ")})` : "",
    revision.created ? " " : "",
    revision.created ? time(revision.created) : "",
    changes.length || more ? make("ul", { class: "changes" }, ...changes, more) : "",
  );
}

function showWorkload(kind, namespace, name, token) {
  const query = `kind=${encodeURIComponent(kind)}&namespace=${encodeURIComponent(namespace)}&name=${encodeURIComponent(name)}`;
  const head = make("div");
  const why = make("div", { "aria-live": "polite" });
  const grid = make("ul", { class: "grid", id: "pods" });
  const count = make("p", { class: "note" });
  const all = make("button", { type: "button", hidden: true }, "Show all");
  const search = make("input", { type: "search", autocomplete: "off" });
  const budgets = make("ul", { class: "changes" });
  const history = make("ul", { class: "changes", id: "history" });
  const section = (id, title, ...children) => make("section", { "aria-labelledby": id }, make("h3", { id }, title), ...children);
  main.replaceChildren(
    make("p", {}, make("a", { href: "#/workloads" }, "All workloads")),
    make("h2", {}, name),
    head,
    section("why", "What holds it back", why),
    section("grid", "Pods", make("form", { role: "search", onsubmit: (event) => event.preventDefault() }, make("label", {}, "Find", search)), count, grid, all),
    section("protection", "Budgets", budgets),
    section("revisions", "History", history),
  );
  let most = MOST_PODS;
  let said = "";
  const pods = new Rows(grid, byName, podItem);
  const shown = new Rows(budgets, byName, (item) => make("li", {}, `${item.name}: `, state(item.note, item.tone), note(item.rule)));
  // A grid of thousands of cells would be slow: the first are shown, and those that are looked for.
  const render = gathered(() => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let place = 0;
    let fitting = 0;
    for (const element of grid.children) {
      const { item } = pods.items.get(element.dataset.key);
      const text = `${item.name} ${item.node} ${item.state} ${item.revision} ${item.hook || ""}`.toLowerCase();
      const fits = words.every((word) => text.includes(word));
      element.hidden = !fits || place >= most;
      if (fits) fitting += 1;
      if (!element.hidden) place += 1;
    }
    const updated = [...pods.items.values()].filter(({ item }) => item.updated).length;
    count.textContent = `${pods.items.size} Pods, ${updated} updated${place < fitting ? `; ${place} of ${fitting} shown` : ""}`;
    all.hidden = place >= fitting;
    if (!budgets.children.length) budgets.replaceChildren(make("li", { "data-key": "", class: "note" }, "None that you may see."));
    else if (budgets.children.length > 1) budgets.querySelector("li.note[data-key='']")?.remove();
    if (!history.children.length) history.append(make("li", { class: "note" }, "None that you may see."));
  });
  all.addEventListener("click", () => {
    most = Infinity;
    render();
  });
  search.addEventListener("input", render);

  let asking = false;
  let askAgain = false;
  let timer = 0;
  const ended = new AbortController();
  async function reasons() {
    if (asking) {
      askAgain = true;
      return;
    }
    asking = true;
    try {
      const told = await (await ask(`api/reasons?${query}`, token, ended.signal)).json();
      const lines = told.sentences.map((sentence) => make("li", {}, sentence));
      const by = `Asked: ${told.answeredBy}${told.leads ? "" : ", which does not lead and does not know what came of the last writes"}.`;
      const nothing = told.writes ? `Nothing: ${told.writes} writes are next.` : "Nothing.";
      why.replaceChildren(lines.length ? make("ul", { class: "changes" }, ...lines) : make("p", {}, nothing), note(by));
    } catch (error) {
      if (!ended.signal.aborted) why.replaceChildren(make("p", { class: "note" }, `It cannot be told now: ${error.message}`));
    }
    asking = false;
    // At most every three seconds, however fast it changes.
    timer = setTimeout(() => {
      timer = 0;
      if (askAgain) {
        askAgain = false;
        reasons();
      }
    }, 3000);
  }
  const changed = () => {
    if (timer || asking) askAgain = true;
    else reasons();
  };

  function workload(item) {
    const { details } = item;
    head.replaceChildren(
      make("p", {}, `${item.kind}${item.namespace ? ` in ${item.namespace}` : ""}, ${age(item.created)} old`),
      make("p", {}, state(item.state.label, item.state.tone), " ", item.state.note || ""),
      bar("updated", item.updated, item.expected),
      make(
        "dl",
        { class: "facts" },
        fact(`${item.unit} wanted`, item.wanted),
        fact("there", item.there),
        fact("updated", `${item.updated} of ${item.expected}`),
        fact("ready", item.ready),
        fact("available", item.available),
        ...details.strategy.map(([name, value]) => fact(name, value)),
        ...details.images.map((image) => fact(`image of ${image.container}`, image.image)),
        ...(details.updateRevision ? [fact("revision", details.updateRevision)] : []),
      ),
      ...details.conditions.map((condition) => make("p", { class: "note" }, `${condition.type}: ${condition.status}. ${condition.reason} ${condition.message}`)),
    );
    if (said && said !== item.state.label) speak(`${item.name}: ${item.state.label}. ${item.state.note || ""}`);
    said = item.state.label;
    changed();
  }

  const end = follow(`api/workload?${query}`, token, {
    ...common,
    missing: (message) => {
      link("Gone", "quiet");
      head.replaceChildren(make("p", { class: "alarm" }, message));
    },
    event(event, data) {
      if (event === "hello") {
        greet(data);
        pods.begin();
        shown.begin();
      } else if (event === "whole") {
        pods.whole();
        shown.whole();
      } else if (event === "workload") workload(data);
      else if (event === "pod") pods.put(data);
      else if (event === "budget") shown.put(data);
      else if (event === "history") history.replaceChildren(...data.revisions.map(revisionItem));
      else if (event === "gone" && data.kind === "Pod") pods.remove(byName(data));
      else if (event === "gone" && data.kind === "PodUnavailableBudget") shown.remove(byName(data));
      else if (event === "gone") head.prepend(make("p", { class: "alarm" }, "It has been deleted."));
      if (event === "pod" || event === "gone") changed();
      render();
    },
  });
  return () => {
    ended.abort();
    clearTimeout(timer);
    askAgain = false;
    end();
  };
}

// -- logging in

function showLogin(message) {
  link("Not logged in", "quiet");
  document.getElementById("who").textContent = "";
  document.getElementById("leave").hidden = true;
  const token = make("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
  const login = (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, token.value.trim());
    open();
  };
  main.replaceChildren(
    make("h2", {}, "Log in"),
    message ? make("p", { class: "alarm", role: "alert" }, message) : "",
    make("p", {}, "You see what the owner of a token of this cluster may list. It is kept in this tab only, until you close it or log out."),
    make("p", {}, "To make one for a service account: ", make("code", {}, "kubectl create token NAME -n NAMESPACE")),
    make("form", { class: "login", onsubmit: login }, make("label", {}, "Token", token), make("button", {}, "Log in")),
  );
  token.focus();
}

const common = {
  state: connection,
  refused(message) {
    sessionStorage.removeItem(TOKEN);
    leave();
    leave = () => {};
    showLogin(message);
  },
  missing: (message) => link("Not connected", "bad", message),
};

function open() {
  leave();
  leave = () => {};
  const token = sessionStorage.getItem(TOKEN);
  if (!token) return showLogin();
  document.getElementById("leave").hidden = false;
  const [page, kind, namespace, name] = location.hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  const place = TABLES[page] ? page : "workloads";
  for (const item of document.querySelectorAll("header nav a")) {
    if (item.hash === `#/${place}`) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  if (page === "workload" && name) {
    document.title = `${name} · kruise`;
    leave = showWorkload(kind, namespace === "-" ? "" : namespace, name, token);
  } else {
    document.title = `${TABLES[place].title} · kruise`;
    leave = showTable(place, token);
  }
}

document.getElementById("leave").addEventListener("click", () => {
  sessionStorage.removeItem(TOKEN);
  open();
});
addEventListener("hashchange", () => {
  open();
  main.focus();
  scrollTo(0, 0);
});
open();
