// suite: soak
import { expect, test } from "bun:test";
import { verdictCalls } from "./wrong-verdicts.ts";

const wrong = verdictCalls();

test("[17] a lossy link and a narrow link are found as causes, with their direction", async () => {
  expect(await wrong("uplink_loss", "downlink_loss", "downlink_narrow")).toEqual({});
}, 180_000);

test("[17] a long round trip, a distant relay, repeated outages and a camera failure are found as causes", async () => {
  expect(await wrong("high_rtt", "relayed", "reconnects", "device")).toEqual({});
}, 180_000);

test("[17] a firewall that blocks media is found as the cause", async () => {
  expect(await wrong("media_stalled")).toEqual({});
}, 180_000);
