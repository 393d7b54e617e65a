// needs: gcc libc6-dev libssl-dev
import { expect, test } from "bun:test";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { createCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import { SrtpReceiver, SrtpSender } from "../../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes, type SrtpProfile } from "../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { startImpairedNode } from "../impaired-node.ts";
import { rtpPacket, withRoom } from "../packets.ts";
import { ALL } from "../room-of-peers.ts";
import { nativeLibraryPath } from "./both-paths.ts";

const library = await nativeLibraryPath();

test("tens of thousands of ended connections leave no key in memory", () => {
  const path = openNativePath(library);
  const profiles: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];
  const packet = rtpPacket({ payload: 100 });
  const present: { sender: SrtpSender; receiver: SrtpReceiver }[] = [];
  for (let i = 0; i < 20_000; i++) {
    const profile = profiles[i % 2] as SrtpProfile;
    const master = { profile, key: new Uint8Array(16).fill(i), salt: new Uint8Array(masterSaltBytes(profile)).fill(i) };
    const sender = new SrtpSender(master, path.createCipher);
    const receiver = new SrtpReceiver(master, path.createCipher);
    present.push({ sender, receiver });
    if (i % 20 === 0) {
      const sealed = withRoom(packet);
      const length = sender.protectRtp(sealed, 12, packet.length);
      expect(receiver.unprotectRtp(sealed, length)).toBe(packet.length);
    }
    if (present.length < 50) continue;
    const leaving = present.splice((i * 7) % present.length, 1)[0];
    leaving?.sender.close();
    leaving?.receiver.close();
    expect(path.liveCiphers()).toBe(98);
  }
  for (const { sender, receiver } of present) {
    sender.close();
    receiver.close();
  }
  expect(path.liveCiphers()).toBe(0);
  path.close();
}, 60_000);

test("a closed native path encrypts nothing and creates no cipher", () => {
  const path = openNativePath(library);
  const master = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;
  const sender = new SrtpSender(master, path.createCipher);
  path.close();
  path.close();
  expect(sender.protectRtp(withRoom(rtpPacket()), 12, 42)).toBe(0);
  sender.close();
  expect(path.liveCiphers()).toBe(0);
  expect(() => new SrtpSender(master, path.createCipher)).toThrow("SRTP key");
});

test("the keys of a client go with the client, and the last with the room", async () => {
  const path = openNativePath(library);
  const node = await startImpairedNode(1, {}, path);
  const certificate = await createCertificate();
  const peers: RtcPeer[] = [];
  const join = async (roomId: string, participantId: string) => {
    await node.addParticipant({ roomId, participantId, identity: participantId, permissions: ALL });
    const sections = [{ kind: "video", direction: "recvonly" }] as const;
    const peer = await RtcPeer.create({ node, roomId, participantId, certificate, sections: [...sections] });
    peers.push(peer);
    await peer.connect([], []);
  };
  try {
    await node.openRoom({ roomId: "a" });
    await node.openRoom({ roomId: "b" });
    for (const participantId of ["x", "y", "z"]) await join("a", participantId);
    await join("b", "x");
    expect(path.liveCiphers()).toBe(8);
    await node.removeParticipant({ roomId: "a", participantId: "y" });
    expect(path.liveCiphers()).toBe(6);
    await node.closeRoom({ roomId: "a" });
    expect(path.liveCiphers()).toBe(2);
    await node.closeRoom({ roomId: "b" });
    expect(path.liveCiphers()).toBe(0);
  } finally {
    for (const peer of peers) peer.close();
    await node.close();
  }
}, 60_000);
