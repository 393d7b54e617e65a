import { describe, expect, test } from "bun:test";
import { Demux, type DemuxSection } from "../../../src/sfu/tracks/demux.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { RtpExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";

const IDS = { mid: 1, rid: 2, repairedRid: 3, transportSequence: 0, audioLevel: 0, absSendTime: 0 };

function packet(
  ssrc: number,
  payloadType: number,
  names: { mid?: string; rid?: string; repairedRid?: string },
): { view: RtpView; extensions: RtpExtensions } {
  const elements = [
    [IDS.mid, names.mid],
    [IDS.rid, names.rid],
    [IDS.repairedRid, names.repairedRid],
  ].flatMap(([id, value]) =>
    typeof value === "string" ? [((id as number) << 4) | (value.length - 1), ...Buffer.from(value)] : [],
  );
  while (elements.length % 4) elements.push(0);
  const data = Buffer.from([
    0x90,
    payloadType,
    0,
    1,
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0,
    0xbe,
    0xde,
    0,
    elements.length / 4,
    ...elements,
    1,
    2,
    3,
  ]);
  data.writeUInt32BE(ssrc, 8);
  const view = new RtpView();
  expect(view.parse(data)).toBe(true);
  const extensions = new RtpExtensions();
  extensions.read(view, IDS);
  return { view, extensions };
}

const section = (mid: string, rids: string[] = [], ssrcs: [number, number | null][] = []): DemuxSection => ({
  mid,
  payloadTypes: new Set([96]),
  repairPayloadTypes: new Set([97]),
  ssrcs: new Map(ssrcs),
  rids,
});

describe("the stream of a packet", () => {
  const identify = (demux: Demux, ...args: Parameters<typeof packet>) => {
    const { view, extensions } = packet(...args);
    return demux.find(view.ssrc) ?? demux.identify(view, extensions);
  };

  test("camera and screen have the same rids and are distinguished by MID", () => {
    const demux = new Demux();
    demux.negotiated([section("0", ["q", "h", "f"]), section("1", ["q", "h", "f"])]);
    expect(identify(demux, 10, 96, { mid: "0", rid: "q" })).toEqual({ mid: "0", rid: "q", repair: false });
    expect(identify(demux, 20, 96, { mid: "1", rid: "q" })).toEqual({ mid: "1", rid: "q", repair: false });
  });

  test("learned SSRCs stay known without MID and RID, even after renegotiations", () => {
    const demux = new Demux();
    demux.negotiated([section("0", ["q", "h"])]);
    identify(demux, 10, 96, { mid: "0", rid: "h" });
    demux.negotiated([section("0", ["q", "h"]), section("1")]);
    expect(identify(demux, 10, 96, {})).toEqual({ mid: "0", rid: "h", repair: false });
  });

  test("retransmissions of a layer are known by its repaired rid", () => {
    const demux = new Demux();
    demux.negotiated([section("0", ["q", "h", "f"])]);
    expect(identify(demux, 11, 97, { mid: "0", repairedRid: "f" })).toEqual({ mid: "0", rid: "f", repair: true });
  });

  test("without simulcast the payload type identifies a retransmission", () => {
    const demux = new Demux();
    demux.negotiated([section("0")]);
    expect(identify(demux, 10, 96, { mid: "0" })).toEqual({ mid: "0", rid: null, repair: false });
    expect(identify(demux, 11, 97, { mid: "0" })).toEqual({ mid: "0", rid: null, repair: true });
  });

  test("SSRCs of the offer are identified without MID and RID", () => {
    const demux = new Demux();
    demux.negotiated([section("0", [], [[10, 11]]), section("1", [], [[20, null]])]);
    expect(identify(demux, 10, 96, {})).toEqual({ mid: "0", rid: null, repair: false });
    expect(identify(demux, 11, 97, {})).toEqual({ mid: "0", rid: null, repair: true });
    expect(identify(demux, 20, 96, {})).toEqual({ mid: "1", rid: null, repair: false });
  });

  test("without MID, RID and SSRC the payload type decides if only one section has it", () => {
    const demux = new Demux();
    demux.negotiated([section("0")]);
    expect(identify(demux, 10, 96, {})?.mid).toBe("0");
    demux.negotiated([section("0"), section("1")]);
    expect(identify(demux, 30, 96, {})).toBeUndefined();
  });

  test("packets of unknown sections and layers are not identified", () => {
    const demux = new Demux();
    demux.negotiated([section("0", ["q"])]);
    expect(identify(demux, 10, 96, { mid: "7", rid: "q" })).toBeUndefined();
    expect(identify(demux, 10, 96, { mid: "0", rid: "z" })).toBeUndefined();
    expect(identify(demux, 10, 96, { mid: "0" })).toBeUndefined();
  });

  test("a flood of SSRCs does not grow the memory without a bound", () => {
    const demux = new Demux();
    demux.negotiated([section("0")]);
    let known = 0;
    for (let ssrc = 1; ssrc <= 2_000; ssrc++) if (identify(demux, ssrc, 96, { mid: "0" })) known++;
    expect(known).toBe(512);
  });
});
