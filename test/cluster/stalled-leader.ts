import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLan } from "../harness/namespaces.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { Group, type GroupMember, readyz } from "./group.ts";
import { untilDone } from "./load.ts";

/** The longest time that a request through an edge takes, whatever happens to the leader. */
const MAX_WAIT_MS = 8_000;

/** Registers the tests, with `rounds` frozen leaders and as many that lose power. */
export function testStalls(rounds: number): void {
  let postgres: TestPostgres;
  let folder: string;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "stoa-stalls-"));
    chmodSync(folder, 0o755);
    const access = join(folder, "pg_hba.conf");
    writeFileSync(access, "local all all trust\nhost all all all trust\n");
    postgres = await testPostgres({ listen_addresses: "*", hba_file: access });
  }, 180_000);
  afterAll(async () => {
    await postgres.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const opened: { close(): void | Promise<void> }[] = [];
  afterEach(async () => {
    for (const one of opened.splice(0).reverse()) await one.close();
  });

  async function throughAnEdge(group: Group): Promise<Group> {
    opened.push(group);
    await group.startFirst();
    await group.leader();
    await group.start("second");
    const edge = await group.start("edge", { ROLE: "edge" });
    while ((await readyz(edge.url))?.status !== "ready") await Bun.sleep(50);
    group.through = edge.url;
    return group;
  }

  function expectNothingWrong(outcome: StallOutcome): void {
    expect(outcome).toMatchObject({ lost: 0, duplicated: 0, answeredByDeposed: 0, unexpected: [] });
    expect(outcome.longestWaitMs).toBeLessThan(MAX_WAIT_MS);
  }

  test(
    "requests through an edge outlive a leader that freezes",
    async () => {
      const group = await throughAnEdge(new Group(await postgres.database()));
      expectNothingWrong(await stallLeaders(group, rounds, FREEZE));
    },
    60_000 + rounds * 60_000,
  );

  test(
    "requests through an edge outlive a leader whose machine loses its power",
    async () => {
      const lan = await openLan("first", "second");
      opened.push(lan);
      const { machines } = lan;
      const logUrl = (await postgres.database()).replace("127.0.0.1", lan.address);
      const group = new Group(logUrl);
      for (const name of ["first", "second"] as const) group.machines.set(name, machines[name]);
      await throughAnEdge(group);
      const machineOf = (name: string) => machines[name as "first" | "second"];
      const dropPackets: Stall = {
        begin: ({ name }) => machineOf(name).disconnect(),
        end: ({ name }) => machineOf(name).reconnect(),
      };
      expectNothingWrong(await stallLeaders(group, rounds, dropPackets));
    },
    60_000 + rounds * 60_000,
  );
}

/** How a leader stops responding without closing a connection, and how it comes back. */
type Stall = { begin(leader: GroupMember): Promise<void>; end(leader: GroupMember): Promise<void> };

const FREEZE: Stall = {
  begin: async ({ process }) => void process.kill("SIGSTOP"),
  end: async ({ process }) => void process.kill("SIGCONT"),
};

const ROOM = "stalls";
const PATH = `/v1/chat/conversations/${ROOM}/messages`;

type StallOutcome = {
  /** The longest that a request through the edge took until its whole response was there. */
  longestWaitMs: number;
  /** The longest time until a standby was ready to lead. */
  longestTakeOverMs: number;
  written: number;
  /** Answered with success, and not stored. */
  lost: number;
  /** Stored more than once. */
  duplicated: number;
  /** Reads that a deposed leader answered after it came back. */
  answeredByDeposed: number;
  /** Responses that were neither a success nor a 503 with `retry-after`. */
  unexpected: string[];
};

/**
 * Writes and reads through an edge while one leader after another stalls. Keyed writes are repeated by their client until
 * they succeed; writes without a key are sent once.
 */
async function stallLeaders(group: Group, rounds: number, stall: Stall): Promise<StallOutcome> {
  await untilDone(() => group.call("POST", "/v1/chat/conversations", { name: ROOM, members: [{ userId: "ann" }] }));
  const requests = new Requests(group);
  const running = [requests.write(true), requests.write(true), requests.write(false), requests.read()];
  const outcome = { longestTakeOverMs: 0, answeredByDeposed: 0 };
  for (let round = 0; round < rounds; round++) {
    const leader = await group.leader();
    await requests.more(20);
    const stalledAt = performance.now();
    await stall.begin(leader);
    await group.leader(leader);
    outcome.longestTakeOverMs = Math.max(outcome.longestTakeOverMs, performance.now() - stalledAt);
    await requests.more(20);
    const probing = probe(group, leader);
    await stall.end(leader);
    outcome.answeredByDeposed += await probing;
    await caughtUp(group, leader);
  }
  requests.stop();
  await Promise.all(running);
  const texts = await storedTexts(group);
  const stored = new Set(texts);
  return {
    ...outcome,
    longestWaitMs: requests.longestWaitMs,
    written: requests.succeeded.length,
    lost: requests.succeeded.filter((text) => !stored.has(text)).length,
    duplicated: texts.length - stored.size,
    unexpected: requests.unexpected,
  };
}

class Requests {
  readonly succeeded: string[] = [];
  readonly unexpected: string[] = [];
  longestWaitMs = 0;
  #count = 0;
  #stopped = false;

  constructor(private readonly group: Group) {}

  stop(): void {
    this.#stopped = true;
  }

  async more(count: number): Promise<void> {
    const until = this.succeeded.length + count;
    while (this.succeeded.length < until) await Bun.sleep(20);
  }

  async write(keyed: boolean): Promise<void> {
    while (!this.#stopped) {
      const text = `${keyed ? "keyed" : "single"} ${++this.#count}`;
      const headers: Record<string, string> = keyed ? { "idempotency-key": text.replace(" ", "-") } : {};
      do {
        if (await this.#send("POST", JSON.stringify({ text, userId: "ann" }), headers)) {
          this.succeeded.push(text);
          break;
        }
        await Bun.sleep(20);
      } while (keyed);
    }
  }

  async read(): Promise<void> {
    while (!this.#stopped) {
      await this.#send("GET");
      await Bun.sleep(20);
    }
  }

  async #send(method: string, body?: string, headers: Record<string, string> = {}): Promise<boolean> {
    const { key, front } = this.group;
    const from = performance.now();
    const response = await fetch(`${front}${PATH}${method === "GET" ? "?limit=1" : ""}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body,
    });
    const text = await response.text();
    this.longestWaitMs = Math.max(this.longestWaitMs, performance.now() - from);
    const { ok, status } = response;
    if (!ok && !(status === 503 && response.headers.has("retry-after"))) this.unexpected.push(`${status} ${text}`);
    return ok;
  }
}

/** Reads from a leader that is about to come back, until it follows; counts those that it answers. */
async function probe(group: Group, deposed: GroupMember): Promise<number> {
  let answered = 0;
  const ask = async () => {
    const headers = { authorization: `Bearer ${group.key}` };
    const signal = AbortSignal.timeout(20_000);
    const response = await fetch(`${deposed.url}${PATH}?limit=1`, { headers, keepalive: false, signal }).catch(
      () => null,
    );
    if (response?.ok) answered++;
  };
  const early = Array.from({ length: 5 }, ask);
  while ((await readyz(deposed.url))?.role !== "standby") {
    await ask();
    await Bun.sleep(5);
  }
  await Promise.all(early);
  return answered;
}

async function caughtUp(group: Group, follower: GroupMember): Promise<void> {
  const head = (await readyz((await group.leader()).url))?.position ?? 0;
  while (((await readyz(follower.url))?.position ?? 0) < head) await Bun.sleep(50);
}

async function storedTexts(group: Group): Promise<string[]> {
  const texts: string[] = [];
  for (let before = ""; ; ) {
    const { body } = await untilDone(() => group.call("GET", `${PATH}?limit=100${before}`));
    for (const { text } of body.data) texts.push(text);
    if (!body.hasMore) return texts;
    before = `&before=${body.nextCursor}`;
  }
}
