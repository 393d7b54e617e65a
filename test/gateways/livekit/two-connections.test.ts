import { expect, test } from "bun:test";
import { SessionDescription } from "@livekit/protocol";
import { twoConnections } from "../../../src/gateways/livekit/connections/two-connections.ts";

const ufragOf = (sdp: string) => /^a=ice-ufrag:(\S+)/m.exec(sdp)?.[1];
const sessionOf = (sdp: string) => /^o=- (\S+)/m.exec(sdp)?.[1];
const written = (ufrag: string) =>
  `v=0\r\no=- 77 2 IN IP4 127.0.0.1\r\na=ice-ufrag:${ufrag}\r\na=ice-pwd:of-${ufrag}\r\n`;

test("the node learns the client's own credentials, and takes them for a restart only after one was offered", async () => {
  const asked: string[] = [];
  const node = {
    async negotiate({ sdp, connection }: { sdp: string; connection?: string }) {
      if (connection === "receive") asked.push(sdp);
      return { sdp: "v=0\r\na=setup:passive\r\n", tracks: [] };
    },
  };
  const negotiator = twoConnections({
    session: { room: { id: "r" }, id: "s" },
    node: () => node,
    publishing: { sectionsOf: () => [] },
    selection: { wanted: () => [], placed: () => {} },
    send: () => {},
  } as never);
  let id = 0;
  const answers = (ufrag: string) =>
    negotiator.answered(new SessionDescription({ type: "answer", sdp: written(ufrag), id: ++id }));

  await negotiator.offered(new SessionDescription({ type: "offer", sdp: "v=0\r\n", id: 1 }));
  await answers("theirs");
  expect(ufragOf(asked[1] ?? "")).toBe("theirs");
  expect(new Set(asked.map(sessionOf)).size).toBe(1);
  await negotiator.resumed();
  const restart = ufragOf(asked[2] ?? "");
  expect([ufragOf(asked[0] ?? ""), "theirs"]).not.toContain(restart);
  await answers("new");
  expect(asked.map(ufragOf).slice(3)).toEqual(["new"]);
});
