/**
 * An SFU made of the unmodified werift package, as its users write one: a peer connection per participant, and every packet
 * of the publisher's tracks handed to each viewer's sender. One JSON object a line: offers in, answers out.
 */
import "reflect-metadata";
import { RTCPeerConnection, type RTCRtpSender, useAudioLevelIndication, useSdesMid } from "werift";

const viewers: Record<"audio" | "video", RTCRtpSender[]> = { audio: [], video: [] };

async function answer(sdp: string, publishes: boolean): Promise<string> {
  const connection = new RTCPeerConnection({
    iceLite: true,
    iceServers: [],
    bundlePolicy: "max-bundle",
    headerExtensions: { audio: [useSdesMid(), useAudioLevelIndication()], video: [useSdesMid()] },
  });
  if (publishes)
    connection.onTrack.subscribe((track) => {
      track.onReceiveRtp.subscribe((packet) => {
        for (const sender of viewers[track.kind as "audio" | "video"]) sender.sendRtp(packet);
      });
    });
  else
    for (const kind of ["audio", "video"] as const)
      viewers[kind].push(connection.addTransceiver(kind, { direction: "sendonly" }).sender);
  await connection.setRemoteDescription({ type: "offer", sdp });
  // It would otherwise take the role of the client, after waiting for 100 ms.
  const { type, sdp: proposed } = await connection.createAnswer();
  await connection.setLocalDescription({ type, sdp: proposed.replaceAll("a=setup:active", "a=setup:passive") });
  return connection.localDescription?.sdp ?? "";
}

for await (const line of console) {
  const { id, sdp, publishes } = JSON.parse(line);
  console.log(JSON.stringify({ id, sdp: await answer(sdp, publishes) }));
}
process.exit();
