/** What of a participant the flight recorder writes down. */
import type { FlightDump } from "../../protocol/media/flight.ts";
import type { FlightState } from "../flight/flight-recorder.ts";
import type { Downlink } from "./downlink.ts";
import type { Uplink } from "./uplink.ts";

export function flightState({ uplink, downlink }: { uplink: Uplink; downlink: Downlink }): FlightState {
  const { lossPercent: uplinkLossPercent, jitterMs } = uplink.feedback;
  const { availableBps: estimateBps, queueMs, rttMs, lossPercent: downlinkLossPercent } = downlink;
  return { estimateBps, queueMs, rttMs, uplinkLossPercent, downlinkLossPercent, jitterMs };
}

/** What it publishes at this moment: how its numbers read. */
export function streamsOf(uplink: Uplink): FlightDump["streams"] {
  return uplink.publications().flatMap(({ kind, codec, layers }) =>
    layers
      .filter(({ ssrc }) => ssrc !== 0)
      .map(({ ssrc, rid }) => ({
        ssrc,
        kind,
        rid,
        codec: codec?.codec ?? "",
        clockRate: codec?.clockRate ?? 90_000,
      })),
  );
}
