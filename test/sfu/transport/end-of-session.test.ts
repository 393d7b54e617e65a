import { afterEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { createCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { nativeLibraryPath } from "../fast-path/both-paths.ts";
import { Site, until } from "../relay/two-workers.ts";
import { CAMERA } from "../room-of-peers.ts";

const ALERT = 21;
const library = await nativeLibraryPath();
const PATHS = [
  ["TypeScript", () => typescriptPath],
  ["native code", () => openNativePath(library)],
] as const;

/** The number of encrypted alerts that the peer receives from now on. */
function alertsTo(peer: RtcPeer): { count: number } {
  const alerts = { count: 0 };
  const receive = peer.receive.bind(peer);
  peer.receive = (data) => {
    if (data[0] === ALERT && data.readUInt16BE(3) === 1) alerts.count += 1;
    else receive(data);
  };
  return alerts;
}

describe.each(PATHS)("when the server ends a session, on %s", (_name, path) => {
  let site: Site;
  afterEach(() => site.close());

  test("its client is told by DTLS at once: on removal, when the room closes, and when the server stops", async () => {
    site = await new Site(0, await createCertificate(), { aheadMs: 0 }).start(path());
    for (const roomId of ["room", "another"]) await site.call("openRoom", { roomId });
    const join = async (roomId: string, identity: string) => {
      const peer = await site.join(roomId, identity, [{ kind: "video", direction: "sendonly" }]);
      await peer.connect([{ ...CAMERA, trackId: `trk_${identity}` } as typeof CAMERA], []);
      return alertsTo(peer);
    };
    const [ann, ben, cid] = [await join("room", "ann"), await join("room", "ben"), await join("another", "cid")];
    const counts = () => [ann.count, ben.count, cid.count];

    await site.call("removeParticipant", { roomId: "room", participantId: "ann" });
    await until(() => ann.count > 0, "the alert to Ann");
    expect(counts()).toEqual([1, 0, 0]);
    await site.call("closeRoom", { roomId: "room" });
    await until(() => ben.count > 0, "the alert to Ben");
    expect(counts()).toEqual([1, 1, 0]);
    site.engine.close();
    await until(() => cid.count > 0, "the alert to Cid");
    expect(counts()).toEqual([1, 1, 1]);
  }, 60_000);
});
