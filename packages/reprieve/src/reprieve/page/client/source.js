// Where the document comes from: the page itself, or the scheduler, which reports changes.

const API = "api/v1/";

export class FileSource {
  constructor(element) {
    this.document = JSON.parse(element.textContent);
    this.live = false;
  }

  start(show) {
    show(this.document);
  }
}

export class LiveSource {
  constructor(report) {
    this.live = true;
    this.paused = false;
    this.at = null;
    this.report = report;
    this.token = sessionStorage.getItem("token") ?? "";
  }

  headers(more = {}) {
    return this.token ? { ...more, Authorization: `Bearer ${this.token}` } : more;
  }

  setToken(token) {
    this.token = token;
    sessionStorage.setItem("token", token);
  }

  async start(show) {
    this.show = show;
    for (let pause = 1000; ; pause = Math.min(30000, pause * 2)) {
      try {
        if (!this.at) await this.load();
        pause = 1000;
        await this.follow();
      } catch (error) {
        if (error.status === 401 || error.status === 403) {
          this.report("refused", error.status === 401 ? "A token is needed." : "This token may not read the page.");
          return;
        }
        this.report("lost", error.message);
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async load() {
    const answer = await fetch(`${API}page`, { headers: this.headers(), cache: "no-cache" });
    if (!answer.ok) throw refusal(answer);
    this.tag = answer.headers.get("ETag");
    this.show(await answer.json());
    this.report("live", "");
  }

  // Server-sent events, read with fetch because an EventSource cannot send a token.
  async follow() {
    const answer = await fetch(`${API}events`, { headers: this.headers() });
    if (!answer.ok) throw refusal(answer);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      const tags = events.map((event) => /^data: (.*)$/m.exec(event)?.[1]).filter(Boolean);
      const tag = tags.at(-1);
      if (!tag || tag === this.tag) continue;
      if (this.paused || this.at) this.report("paused", "New data is available.");
      else await this.load();
    }
  }

  async resume() {
    this.paused = false;
    await this.load();
  }

  // Shows the page as of a time, or as it is now for null. Throws an error that says why not.
  async travel(at) {
    this.at = at;
    if (at === null) return this.load();
    const answer = await fetch(`${API}page?at=${encodeURIComponent(at)}`, { headers: this.headers() });
    if (!answer.ok) throw new Error(answer.status === 503 ? "The scheduler is busy, or its database is unreachable." : (await answer.text()).trim());
    const whole = await answer.json();
    if (this.at === at) this.show(whole);
  }

  async whatIf(question) {
    const answer = await fetch(`${API}whatif`, {
      method: "POST", headers: this.headers({ "Content-Type": "application/json" }), body: JSON.stringify(question),
    });
    if (!answer.ok) throw new Error((await answer.text()).trim() || `status ${answer.status}`);
    return answer.json();
  }
}

function refusal(answer) {
  const error = new Error(answer.status === 503 ? "The scheduler is busy." : `The scheduler answers ${answer.status}.`);
  error.status = answer.status;
  return error;
}
