// suite: all
// needs: postgresql
/** Write access to the commit log's Postgres gives no access to the data: everything in it is authenticated. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHALLENGE_PATH, MemberAuthentication, MemberRefused } from "../../src/cluster/member-authentication.ts";
import { makeLogBase, Replica, requiresSeals } from "../../src/cluster/replica.ts";
import { takeOver } from "../../src/cluster/take-over.ts";
import { createKeyring } from "../../src/kernel/crypto/secrets.ts";
import { type CommitLog, encodeRecord, LogRolledBack, LogTruncated } from "../../src/kernel/db/commit-log.ts";
import { LogForged, LogSeal, type RefusedPart } from "../../src/kernel/db/log-seal.ts";
import { type Migration, migrate } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { Group, type GroupMember, readyz, SECRET } from "../cluster/group.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { attackerServer, HostilePostgres } from "./hostile-postgres.ts";

const LONG = 180_000;
const log = createLog({ level: "silent", format: "json" });
const key = createKeyring(SECRET).key("commit-log");

let postgres: TestPostgres;
let url: string;
let attacker: HostilePostgres;
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  postgres = await testPostgres();
}, LONG);
afterAll(() => postgres.close());
beforeEach(async () => {
  url = await postgres.database();
  attacker = new HostilePostgres(url);
  closing.push(() => attacker.close());
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
}, LONG);

function openLog(options: { isRequired?: boolean; sealed?: boolean } = {}) {
  const refused: RefusedPart[] = [];
  const { isRequired = true, sealed = true } = options;
  const seal = sealed ? new LogSeal({ key, isRequired, onRefused: (part) => refused.push(part) }) : undefined;
  const opened = postgresLog(url, { log, timers: systemTimers, leaseMs: 2_000, seal });
  closing.push(() => opened.close());
  return { log: opened, refused };
}

const changes = (...bytes: number[]) => ({ kind: "changes" as const, changes: Uint8Array.of(...bytes) });

describe("records", () => {
  let leader: CommitLog;
  beforeEach(async () => {
    leader = openLog().log;
    await leader.info("fingerprint");
    for (let n = 1; n <= 5; n++) await leader.append(n, changes(n));
  });

  async function expectRefused(after: number): Promise<void> {
    const { log: follower, refused } = openLog();
    const read = follower.read(after, 10);
    await expect(read).rejects.toBeInstanceOf(LogForged);
    await expect(read).rejects.toThrow("is not authentic");
    expect(refused).toEqual(["record"]);
  }

  test("authentic records are read by another member", async () => {
    const { log: follower, refused } = openLog();
    expect(await follower.read(0, 10)).toHaveLength(5);
    expect((await follower.read(3, 1)).map(({ position }) => position)).toEqual([4]);
    expect(refused).toEqual([]);
  });

  test("a forged change and forged statements are refused", async () => {
    await attacker.insertRecord(6, encodeRecord(changes(6)));
    await expectRefused(5);
    const sql = "INSERT INTO users (id, is_operator) VALUES ('attacker', 1)";
    const statements = JSON.stringify({ migrations: [{ name: "0999_attack", sql, hash: "h" }], at: 0 });
    await attacker.replaceRecord(6, Buffer.concat([Buffer.of(2), Buffer.from(statements)]));
    await expectRefused(5);
    await attacker.replaceRecord(6, Buffer.alloc(200, 3));
    await expectRefused(5);
  });

  test("a record with one changed bit is refused", async () => {
    const bytes = Buffer.from(await attacker.recordAt(4));
    for (const at of [1, 40, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      await attacker.replaceRecord(4, changed);
      await expectRefused(3);
    }
  });

  test("replayed and reordered records are refused", async () => {
    const [second, third] = [await attacker.recordAt(2), await attacker.recordAt(3)];
    await attacker.insertRecord(6, third);
    await expectRefused(5);
    await attacker.replaceRecord(2, third);
    await attacker.replaceRecord(3, second);
    await expectRefused(1);
    await expectRefused(0);
  });

  test("an authentic record of a deposed leader cannot replace the record at its position", async () => {
    const seal = new LogSeal({ key, isRequired: true });
    const id = (await leader.info("fingerprint")).id;
    // Authentic for its position, because the deposed leader has the secret.
    const { bytes } = seal.close(id, 4, null, changes(44));
    await attacker.replaceRecord(4, bytes);
    await expectRefused(3);
  });

  test("records of another log with the same secret are refused", async () => {
    const { bytes } = new LogSeal({ key, isRequired: true }).close("another log", 6, null, changes(6));
    await attacker.insertRecord(6, bytes);
    await expectRefused(5);
  });

  test("a missing record is not skipped, and a log that was rolled back is detected", async () => {
    const { log: follower } = openLog();
    await attacker.run("DELETE FROM stoa_log WHERE position = 3");
    await expect(follower.read(2, 10)).rejects.toBeInstanceOf(LogTruncated);
    await expect(follower.read(1, 10)).rejects.toBeInstanceOf(LogTruncated);
    await attacker.removeRecords(4);
    await expect(follower.read(5, 10)).rejects.toBeInstanceOf(LogRolledBack);
  });

  test("unauthenticated records are refused even if the log is marked as one of an old version", async () => {
    await attacker.run("UPDATE stoa_log_info SET format = 1, seal = NULL");
    await attacker.insertRecord(6, encodeRecord(changes(6)));
    await expectRefused(5);
  });
});

test(
  "a forged leader and forged members are not used",
  async () => {
    const { log: leader } = openLog();
    await leader.info("fingerprint");
    const leadership = await leader.lead("http://leader");
    await leader.report({ url: "http://leader", role: "leader", position: 0, version: "1" });
    const { log: other, refused } = openLog();
    expect(await other.known()).toMatchObject({ leader: "http://leader", term: 1 });
    expect(await other.members()).toHaveLength(1);
    await attacker.run("UPDATE stoa_log_info SET leader = 'http://attacker'");
    expect(await other.known()).toMatchObject({ leader: null });
    expect((await other.info("fingerprint")).leader).toBeNull();
    await attacker.run("UPDATE stoa_log_info SET leader = 'http://leader', term = 2");
    expect(await other.known()).toMatchObject({ leader: null });
    await attacker.run("UPDATE stoa_log_info SET seal = NULL");
    expect(await other.known()).toMatchObject({ leader: null });
    expect(new Set(refused.splice(0))).toEqual(new Set(["leader"]));
    await attacker.run(
      "INSERT INTO stoa_members (url, role, position, version, seen_at) VALUES ('http://attacker', 'standby', 99, '1', now())",
    );
    await attacker.run("UPDATE stoa_members SET position = 99");
    expect(await other.members()).toEqual([]);
    expect(refused).toEqual(["member", "member"]);
    await leadership?.resign();
  },
  LONG,
);

const OLD: Migration[] = [
  {
    name: "0001_all",
    hash: "1",
    sql: `CREATE TABLE log_position (id INTEGER PRIMARY KEY, log_id TEXT NOT NULL, position INTEGER NOT NULL, term INTEGER NOT NULL) STRICT;`,
  },
];
const SEALED: Migration[] = [
  ...OLD,
  { name: "0002", hash: "2", sql: "ALTER TABLE log_position ADD COLUMN sealed INTEGER NOT NULL DEFAULT 1;" },
];

test(
  "the log of an older version is followed until the first leader of this one, and never again",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "stoa-sealed-"));
    closing.push(() => rmSync(folder, { recursive: true, force: true }));
    const { log: older } = openLog({ sealed: false });
    const { id } = await older.info("fingerprint");
    const [one, two] = [join(folder, "one.db"), join(folder, "two.db")];
    for (const path of [one, two]) {
      const db = openDatabase(path);
      migrate(db, OLD, 0);
      closeDatabase(db);
      makeLogBase(path, id);
    }
    const now = () => 0;
    await takeOver({ path: one, log: older, term: 1, migrations: OLD, now });
    expect(requiresSeals(two)).toBe(false);

    // Two servers of this version: one follows, the other leads.
    const { log: newer, refused } = openLog({ isRequired: requiresSeals(two) });
    const follower = new Replica(two, SEALED);
    follower.apply(await newer.read(0, 10));
    expect(follower.position).toBe(1);
    await takeOver({ path: one, log: openLog({ isRequired: false }).log, term: 2, migrations: SEALED, now });
    follower.apply(await newer.read(1, 10));
    expect(follower.position).toBe(3);
    follower.close();
    expect(refused).toEqual([]);

    // From now on it refuses records without a seal, even after a restart.
    expect(requiresSeals(two)).toBe(true);
    await attacker.insertRecord(4, encodeRecord(changes(1)));
    await expect(newer.read(3, 10)).rejects.toBeInstanceOf(LogForged);
    const { log: restarted } = openLog({ isRequired: requiresSeals(two) });
    await expect(restarted.read(3, 10)).rejects.toBeInstanceOf(LogForged);
  },
  LONG,
);

describe("members prove themselves to each other", () => {
  const keyring = createKeyring(SECRET);
  const client = new MemberAuthentication(keyring);
  const at = (serverUrl: string) => new MemberAuthentication(keyring, () => serverUrl);
  const request = (headers: HeadersInit, path = "/v1/cluster/snapshot") => new Request(`http://x${path}`, { headers });

  test("a server without the secret learns nothing that it could use, and cannot relay another server's proof", async () => {
    const real = at("http://real");
    const relay = attackerServer((got) => real.respond(got) ?? new Response(null, { status: 404 }));
    const silent = attackerServer();
    closing.push(relay.close, silent.close);
    for (const { url, requests } of [relay, silent]) {
      const signal = AbortSignal.timeout(5_000);
      const refused = client.fetch(url, "/v1/cluster/snapshot", { signal });
      await expect(refused).rejects.toBeInstanceOf(MemberRefused);
      expect(requests.map(({ path }) => path.split("?")[0])).toEqual([CHALLENGE_PATH]);
      expect(JSON.stringify(requests)).not.toContain("authorization");
    }
  });

  test("an authorization is valid once, at one server, for one path, and only with the secret", async () => {
    let own = "";
    const server = attackerServer((got) => proof.respond(got) ?? new Response(null, { status: 404 }));
    closing.push(server.close);
    own = server.url;
    const proof = at(own);
    const authorize = () => client.authorize(own, "GET", "/v1/cluster/snapshot");
    const { headers, linkToken } = await authorize();
    expect(at("http://another").verify(request(headers))).toBeNull();
    expect(proof.verify(request(headers, "/v1/cluster/operations"))).toBeNull();
    expect(proof.verify(request(headers))).toBe(linkToken);
    expect(proof.verify(request(headers))).toBeNull();
    const foreign = new MemberAuthentication(createKeyring("another secret of forty letters, at least"));
    await expect(foreign.authorize(own, "GET", "/")).rejects.toBeInstanceOf(MemberRefused);
    // The credential that older versions sent.
    const authorization = `Bearer ${keyring.digest("cluster", "members of one commit log")}`;
    expect(proof.verify(request({ authorization }))).toBeNull();
  });
});

describe("a running cluster", () => {
  let group: Group;
  let leader: GroupMember;
  let standby: GroupMember;
  let edge: GroupMember;
  beforeEach(async () => {
    group = new Group(url);
    closing.push(() => group.close());
    await group.startFirst();
    leader = await group.leader();
    standby = await group.start("second");
    edge = await group.start("edge", { ROLE: "edge" });
    while ((await readyz(edge.url))?.status !== "ready") await Bun.sleep(50);
  }, LONG);

  const refusedBy = async (member: GroupMember, part: RefusedPart): Promise<number> => {
    const metrics = await (await fetch(`${member.url}/metrics`)).text();
    return Number(new RegExp(`^stoa_cluster_refused_total\\{part="${part}"\\} (\\d+)$`, "m").exec(metrics)?.[1]);
  };
  const untilRefused = async (member: GroupMember, part: RefusedPart) => {
    while (!((await refusedBy(member, part)) > 0)) await Bun.sleep(50);
    expect(member.output()).toContain("cluster: rejected a commit log entry that failed authentication");
  };

  test(
    "forged rows lead no server to the attacker",
    async () => {
      const captured = attackerServer();
      closing.push(captured.close);
      expect(await refusedBy(edge, "leader")).toBe(0);
      await attacker.run("UPDATE stoa_log_info SET leader = $1", [captured.url]);
      await attacker.run(
        `INSERT INTO stoa_members (url, role, position, version, seen_at, met)
       SELECT $1, 'standby', 1000000, version, now() + interval '1 day', met FROM stoa_members LIMIT 1`,
        [captured.url],
      );
      await untilRefused(edge, "leader");
      await untilRefused(leader, "member");
      // A server without data looks for a member that gives it a snapshot.
      await attacker.run("UPDATE stoa_log_info SET leader = $1", [leader.url]);
      const third = await group.start("third");
      while (((await readyz(third.url))?.position ?? 0) === 0) await Bun.sleep(50);
      expect(captured.requests).toEqual([]);
      group.through = edge.url;
      expect((await group.call("GET", "/v1/rooms")).status).toBe(200);
    },
    LONG,
  );

  test(
    "a forged record is applied by no server, and the cluster continues once it is removed",
    async () => {
      group.through = leader.url;
      await group.call("POST", "/v1/rooms", { name: "before" });
      // The changes of an authentic record at the next position, as the attacker can read them.
      const position = (await attacker.head()) + 1;
      while (((await readyz(standby.url))?.position ?? 0) < position - 1) await Bun.sleep(50);
      await attacker.insertRecord(position, await attacker.recordAt(position - 1));
      await untilRefused(standby, "record");
      expect((await readyz(standby.url))?.position).toBe(position - 1);
      const said = (await (await fetch(`${standby.url}/readyz`)).json()) as { reasons: { standby: string } };
      expect(said.reasons.standby).toContain(`record ${position} is not authentic`);
      await attacker.removeRecords(position);
      group.through = (await group.leader()).url;
      expect((await group.call("POST", "/v1/rooms", { name: "after" })).status).toBe(201);
      const head = await attacker.head();
      while (((await readyz(standby.url))?.position ?? 0) < head) await Bun.sleep(50);
    },
    LONG,
  );
});
