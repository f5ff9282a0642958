// Server-sent events over fetch: an EventSource cannot send the header that says who reads.
//
// A stream that breaks off is opened again after a pause that doubles up to half a minute, and at once when the server says so. Silence of 40 seconds is a break, too.

const SILENCE = 40_000;
const LONGEST = 30_000;

export class Refused extends Error {}

export async function ask(address, token, signal) {
  const answer = await fetch(address, {
    headers: { Authorization: `Bearer ${token}` },
    cache: "no-store",
    signal,
  });
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const message = told.message || `The manager answers ${answer.status}.`;
  if (answer.status === 401) throw new Refused(message);
  const error = new Error(message);
  error.missing = answer.status === 404;
  throw error;
}

// Calls `on.event(name, data)` for each event and `on.state(word)` when the connection changes; returns what ends it.
export function follow(address, token, on) {
  const ended = new AbortController();
  run(address, token, on, ended.signal);
  return () => ended.abort();
}

async function run(address, token, on, signal) {
  let pause = 500;
  while (!signal.aborted) {
    let again = false;
    try {
      on.state("connecting");
      const one = new AbortController();
      const end = () => one.abort();
      signal.addEventListener("abort", end);
      try {
        const answer = await ask(address, token, one.signal);
        pause = 500;
        on.state("live");
        again = await read(answer.body, on, end);
      } finally {
        signal.removeEventListener("abort", end);
        end();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused) return on.refused(error.message);
      if (error.missing) return on.missing(error.message);
      on.state("broken", error.message);
    }
    if (signal.aborted) return;
    const wait = again ? 50 + Math.random() * 200 : pause * (0.5 + Math.random());
    if (!again) pause = Math.min(pause * 2, LONGEST);
    await new Promise((done) => setTimeout(done, wait));
  }
}

// Reads until the end; true when the server asks to come back at once.
async function read(body, on, end) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const silence = setTimeout(end, SILENCE);
    const { value, done } = await reader.read();
    clearTimeout(silence);
    if (done) return false;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [name, data] = parse(event);
      if (name === "again") return true;
      if (name === "refused") throw new Refused(data.message);
      if (name) on.event(name, data);
    }
  }
}

function parse(event) {
  let name = "";
  let data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data = line.slice(6);
  }
  return [name, data ? JSON.parse(data) : null];
}
