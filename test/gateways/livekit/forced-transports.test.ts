import { expect, test } from "bun:test";
import { CandidateProtocol, ICEServer, SessionDescription } from "@livekit/protocol";
import { ForcedTransports, overTls, withoutUdp } from "../../../src/gateways/livekit/forced-transports.ts";

test("what a client has asked for holds for its next session, if that begins within a minute", () => {
  let now = 0;
  const forced = new ForcedTransports(() => now);
  forced.ask("room", "ann", CandidateProtocol.TCP);
  expect(forced.take("room", "ben")).toBeNull();
  expect(forced.take("room", "ann")).toBe("tcp");
  expect(forced.take("room", "ann")).toBeNull();
  forced.ask("room", "ann", CandidateProtocol.TLS);
  now = 59_999;
  expect(forced.take("room", "ann")).toBe("tls");
  forced.ask("room", "ann", CandidateProtocol.TLS);
  now += 60_000;
  expect(forced.take("room", "ann")).toBeNull();
});

test("a client that asks for UDP again gets what connects best, and the oldest of too many is forgotten", () => {
  const forced = new ForcedTransports(() => 0);
  forced.ask("room", "ann", CandidateProtocol.TCP);
  forced.ask("room", "ann", CandidateProtocol.UDP);
  expect(forced.take("room", "ann")).toBeNull();
  for (let n = 0; n <= 1_000; n++) forced.ask("room", `p${n}`, CandidateProtocol.TCP);
  expect([forced.take("room", "p0"), forced.take("room", "p1")]).toEqual([null, "tcp"]);
});

const UDP = "a=candidate:1 1 udp 2130706431 192.0.2.1 7001 typ host\r\n";
const TCP = "a=candidate:2 1 tcp 1518280447 192.0.2.1 7001 typ host tcptype passive\r\n";
const described = (sdp: string) => ({
  case: "answer" as const,
  value: new SessionDescription({ type: "answer", sdp, id: 7 }),
});

test("an answer for TCP has no UDP candidates, unless the server has no others", () => {
  const answer = described(`v=0\r\n${UDP}${TCP}a=mid:0\r\n`);
  expect(withoutUdp(answer).value).toMatchObject({ sdp: `v=0\r\n${TCP}a=mid:0\r\n`, id: 7 });
  expect(answer.value.sdp).toContain(UDP);
  expect(withoutUdp(described(`v=0\r\n${UDP}`)).value).toMatchObject({ sdp: `v=0\r\n${UDP}` });
});

test("over TLS, clients get the TURN servers that are reached over TLS", () => {
  const urls = ["turns:rtc.example.com:443?transport=tcp", "turn:rtc.example.com:3478?transport=udp"];
  const servers = [new ICEServer({ urls, username: "u", credential: "c" }), new ICEServer({ urls: urls.slice(1) })];
  expect(overTls(servers).map(({ urls, username, credential }) => [urls, username, credential])).toEqual([
    [urls.slice(0, 1), "u", "c"],
  ]);
});
