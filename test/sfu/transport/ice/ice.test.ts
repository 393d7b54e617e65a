import { beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { IceAgent } from "../../../../src/sfu/transport/ice/ice.ts";
import { IceSession, type Path } from "../../../../src/sfu/transport/ice/ice-session.ts";
import {
  hasIntegrity,
  type IceCredentials,
  parseStun,
  STUN_TYPE,
  writeBindingRequest,
  writeBindingSuccess,
} from "../../../../src/sfu/wire/stun/stun.ts";
import { readMappedAddress } from "../../packets.ts";

const A = { port: 5000, address: "::ffff:192.0.2.1" };
const B = { port: 6000, address: "192.0.2.2" };
const THEIRS = { ufrag: "remote", pwd: "the password of the client" };

function check(
  credentials: IceCredentials,
  overrides: { useCandidate?: boolean; pwd?: string; ufrag?: string } = {},
): Buffer {
  const out = Buffer.alloc(256);
  const length = writeBindingRequest(out, {
    transactionId: randomBytes(12),
    username: `${overrides.ufrag ?? credentials.ufrag}:remote`,
    password: overrides.pwd ?? credentials.pwd,
    priority: 1,
    useCandidate: overrides.useCandidate ?? true,
    iceControlling: 7n,
  });
  return out.subarray(0, length);
}

describe("ICE-lite on one port", () => {
  let sent: { data: Uint8Array; port: number; address: string }[];
  let agent: IceAgent;
  let session: IceSession;
  let credentials: IceCredentials;
  let seen: { dtls: number; media: number; checks: { path: Path; moved: boolean }[] };

  const newSession = () => {
    const events = { dtls: 0, media: 0, checks: [] as { path: Path; moved: boolean }[] };
    const created = new IceSession({
      onDtls: () => void events.dtls++,
      onMedia: () => void events.media++,
      onCheck: (path, moved) => void events.checks.push({ path, moved }),
      onPathLost: () => {},
    });
    return { created, events };
  };
  const receive = (data: Buffer, from: { port: number; address: string }, nowMs = 0) =>
    agent.receive(data, from.port, from.address, null, nowMs);

  type Address = { port: number; address: string };
  const questions = () =>
    sent.flatMap(({ data, port, address }) => {
      const message = parseStun(data);
      return message?.type === STUN_TYPE.bindingRequest ? [{ message, port, address }] : [];
    });
  /** The response of the client, or of another sender, to the last check of the server. */
  const reached = (at: Address, nowMs = 0, { from = at, pwd = THEIRS.pwd } = {}) => {
    const asked = questions().findLast(({ port, address }) => port === at.port && address === at.address);
    if (!asked) throw new Error("nothing was asked");
    const out = Buffer.alloc(128);
    const length = writeBindingSuccess(out, asked.message, "192.0.2.100", 7001, pwd);
    receive(out.subarray(0, length), from, nowMs);
  };

  beforeEach(() => {
    sent = [];
    agent = new IceAgent({ sendUdp: (data, port, address) => void sent.push({ data: data.slice(), port, address }) });
    const { created, events } = newSession();
    session = created;
    seen = events;
    credentials = agent.issueCredentials(session, THEIRS);
  });

  test("a valid check is answered with the address it came from, and selects it", () => {
    receive(check(credentials), A);
    expect(sent).toHaveLength(1);
    const answer = parseStun(sent[0]?.data ?? new Uint8Array());
    expect(answer?.type).toBe(STUN_TYPE.bindingSuccess);
    // A dual-stack socket shows IPv4 in IPv6 clothes; the client must see its own.
    expect(answer && readMappedAddress(answer)).toEqual({ address: new Uint8Array([192, 0, 2, 1]), port: 5000 });
    expect(session.selected).toMatchObject(A);
  });

  test.each([
    ["a wrong password", { pwd: "x".repeat(48) }, "forgedCheck"],
    ["an unknown username fragment", { ufrag: "nobody" }, "unknownUser"],
  ] as const)("%s is refused, counted, and gets no answer at all", (_, overrides, reason) => {
    receive(check(credentials, overrides), A);
    expect(sent).toEqual([]);
    expect(session.selected).toBeNull();
    expect(agent.refusals[reason]).toBe(1);
  });

  test("an altered check is refused, whichever bit it is", () => {
    for (let bit = 0; bit < 8 * 60; bit += 7) {
      const data = check(credentials);
      data[bit >> 3] = (data[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      receive(data, A);
    }
    expect(sent).toEqual([]);
    expect(session.selected).toBeNull();
  });

  test("a check replayed from another address does not move the session", () => {
    const data = check(credentials);
    receive(Buffer.from(data), A);
    receive(Buffer.from(data), B);
    expect(session.selected).toMatchObject(A);
    expect(agent.refusals.replayedCheck).toBe(1);
    expect(sent).toHaveLength(1);
    receive(Buffer.from(data), A);
    expect(sent).toHaveLength(2);
  });

  test("packets from an address without a valid connectivity check are dropped and counted", () => {
    receive(check(credentials), A);
    receive(Buffer.from([128, 0, 0, 0]), B);
    receive(Buffer.from([22, 0, 0, 0]), B);
    expect(seen).toMatchObject({ dtls: 0, media: 0 });
    expect(agent.refusals.foreignAddress).toBe(2);
    receive(Buffer.from([128, 0, 0, 0]), A);
    receive(Buffer.from([22, 0, 0, 0]), A);
    receive(Buffer.from([70, 0, 0, 0]), A);
    expect(seen).toMatchObject({ dtls: 1, media: 1 });
    expect(agent.refusals.unreadable).toBe(1);
  });

  test("an address without a valid connectivity check gets no bytes at all", () => {
    const random = [
      check(credentials, { pwd: "wrong".repeat(9) }),
      check(credentials, { ufrag: "x" }),
      randomBytes(500),
      Buffer.alloc(20),
    ];
    for (const data of random) receive(data, B);
    expect(sent).toEqual([]);
  });

  test("a response to a valid connectivity check is not larger than the check", () => {
    const data = check(credentials);
    receive(data, A);
    expect(sent[0]?.data.length ?? 0).toBeLessThanOrEqual(data.length);
  });

  test("a nominating check from another address moves the session once the client responds there, other checks do not", () => {
    receive(check(credentials), A);
    receive(check(credentials, { useCandidate: false }), B);
    reached(B);
    expect(session.selected).toMatchObject(A);
    receive(check(credentials), B);
    expect(session.selected).toMatchObject(B);
    expect(seen.checks.map(({ moved }) => moved)).toEqual([true, false, false, true]);
  });

  test("a nomination from a forged address does not move the path, however often it comes and whichever peer responds", () => {
    receive(check(credentials), A);
    for (let ms = 0; ms < 20_000; ms += 50) {
      receive(check(credentials, { useCandidate: false }), A, ms);
      receive(check(credentials), B, ms);
    }
    reached(B, 20_000, { from: A });
    reached(B, 20_000, { pwd: credentials.pwd });
    reached(B, 20_000, { from: { ...B, port: B.port + 1 } });
    expect(session.selected).toMatchObject(A);
    // The forged address is not used either after the current one has fallen silent or is gone.
    receive(check(credentials), B, 40_000);
    expect(session.selected).toMatchObject(A);
    reached(B, 40_000);
    expect(session.selected).toMatchObject(B);
  });

  test("a check of the server is authentic, and is not repeated without end", () => {
    receive(check(credentials), A);
    for (let ms = 0; ms < 3_000; ms += 10) {
      receive(check(credentials), B, ms);
      agent.tick(session, ms);
    }
    const asked = questions();
    expect(asked.length).toBeLessThanOrEqual(5);
    expect(asked[0]).toMatchObject(B);
    expect(asked[0]?.message).toMatchObject({ username: `remote:${credentials.ufrag}`, iceControlled: 0n });
    for (const { message } of asked) expect(hasIntegrity(message, THEIRS.pwd)).toBeTrue();
  });

  test("a check of the server that was lost is sent again without a further check of the client", () => {
    receive(check(credentials), A);
    receive(check(credentials), B, 0);
    sent = [];
    agent.tick(session, 99);
    expect(questions()).toEqual([]);
    agent.tick(session, 100);
    reached(B, 130);
    expect(session.selected).toMatchObject(B);
    agent.tick(session, 1_000);
    expect(questions()).toHaveLength(1);
  });

  test("a plain check moves the session once the old path has fallen silent", () => {
    receive(check(credentials), A, 0);
    receive(check(credentials, { useCandidate: false }), B, 4_000);
    reached(B, 4_010);
    expect(session.selected).toMatchObject(A);
    receive(check(credentials, { useCandidate: false }), B, 6_000);
    expect(session.selected).toMatchObject(B);
  });

  test("after an ICE restart, the old credentials are valid until the first check with the new ones", () => {
    receive(check(credentials), A);
    const fresh = agent.issueCredentials(session, THEIRS);
    receive(check(credentials), A);
    expect(sent).toHaveLength(2);
    receive(check(fresh), B);
    reached(B);
    expect(session.selected).toMatchObject(B);
    sent = [];
    receive(check(credentials), A);
    expect(sent).toEqual([]);
    expect(agent.refusals.unknownUser).toBe(1);
  });

  test("a client that moved before it knew the new credentials is checked again as soon as it uses them", () => {
    receive(check(credentials), A);
    const fresh = agent.issueCredentials(session, THEIRS);
    receive(check(credentials, { useCandidate: false }), B, 0);
    receive(check(fresh, { useCandidate: false }), B, 50);
    expect(questions().map(({ message }) => message.username)).toEqual([
      `remote:${credentials.ufrag}`,
      `remote:${fresh.ufrag}`,
    ]);
    // The client does not answer the first check.
    reached(B, 90);
    receive(check(fresh), B, 100);
    expect(session.selected).toMatchObject(B);
    agent.tick(session, 5_000);
    expect(questions()).toHaveLength(2);
  });

  test("an address belongs to the session that responded there last, not to one that only sends from it", () => {
    receive(check(credentials), A);
    const other = newSession();
    const theirs = agent.issueCredentials(other.created, THEIRS);
    receive(check(theirs), A);
    receive(Buffer.from([128]), A);
    expect(seen.media).toBe(1);
    expect(session.selected).toMatchObject(A);
    expect(other.created.selected).toBeNull();
    reached(A);
    receive(Buffer.from([128]), A);
    expect(other.events.media).toBe(1);
    expect(other.created.selected).toMatchObject(A);
    expect(seen.media).toBe(1);
    expect(session.selected).toBeNull();
  });

  test("a session keeps a limited number of addresses, always including the one in use", () => {
    receive(check(credentials), A);
    for (let port = 7_000; port < 7_050; port++)
      receive(check(credentials, { useCandidate: false }), { port, address: "192.0.2.9" });
    expect(session.paths.length).toBeLessThanOrEqual(8);
    expect(session.selected).toMatchObject(A);
  });

  test("a closed session is unknown", () => {
    receive(check(credentials), A);
    agent.close(session);
    receive(check(credentials), A);
    receive(Buffer.from([128]), A);
    expect(sent).toHaveLength(1);
    expect(seen.media).toBe(0);
    expect(agent.refusals).toMatchObject({ unknownUser: 1, foreignAddress: 1 });
  });

  test("credentials are long, random and free of characters SDP does not allow", () => {
    const many = Array.from({ length: 200 }, () => agent.issueCredentials(newSession().created, THEIRS));
    expect(new Set(many.map(({ ufrag }) => ufrag)).size).toBe(200);
    for (const { ufrag, pwd } of many) {
      expect(ufrag).toMatch(/^[A-Za-z0-9+/]{8,}$/);
      expect(pwd.length).toBeGreaterThanOrEqual(32);
    }
  });
});
