import { expect, test } from "bun:test";
import { Allocation } from "../../../src/sfu/tracks/allocation.ts";
import type { UdpPort } from "../../../src/sfu/transport/udp.ts";
import { parseRtcp } from "../../../src/sfu/wire/rtcp/rtcp.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../../../src/sfu/wire/rtcp/twcc.ts";
import { SentPackets, TransportFeedback } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";

test("loss on the publisher's path does not count for a subscriber, even between two of its reports", () => {
  let nowMs = 1_000;
  const sent = new SentPackets(1);
  const host = { udp: {} as UdpPort, transportFeedback: new TransportFeedback(), now: () => nowMs };
  const allocation = new Allocation(sent, host);
  // Nothing else is known.
  expect(allocation.ownLoss(0.3, nowMs)).toBe(0.3);

  const recorder = new TwccRecorder();
  for (let n = 0; n < 10; n++) recorder.record(sent.next(500, nowMs + n * 10, 0), nowMs + n * 10 + 20);
  const out = new Uint8Array(MAX_TWCC_BYTES);
  const [packet] = parseRtcp(out, recorder.writeFeedback(out, 0, 1, 2));
  if (packet?.type !== "transport-feedback") throw new Error("not feedback");
  nowMs += 200;
  allocation.onTransportFeedback(packet, nowMs);
  expect(allocation.ownLoss(0.3, nowMs)).toBe(0);
  expect(allocation.ownLoss(0.3, nowMs + 1_000)).toBe(0);
  // A viewer that has only sound left, which feedback does not cover.
  expect(allocation.ownLoss(0.3, nowMs + 20_000)).toBe(0.3);
});
