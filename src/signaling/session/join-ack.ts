import type { IceServer } from "../../protocol/room-records.ts";
import type { JoinAck } from "../../protocol/signaling.ts";
import { ICE_CREDENTIAL_MS, iceServersFor } from "../../rooms/ice-servers.ts";
import type { Runtime } from "../../runtime.ts";
import { RESUME_WINDOW_SECONDS } from "./membership.ts";
import { participantOf, type RtcSession } from "./rtc-session.ts";
import { withoutTracks } from "./waiting-viewer.ts";

export function iceServersOf(runtime: Runtime, { id, identity }: Pick<RtcSession, "id" | "identity">): IceServer[] {
  return iceServersFor(runtime, { id, identity }, runtime.now() + ICE_CREDENTIAL_MS);
}

/**
 * What a client needs to know on coming in. The participants are always those of now. A resuming client that finds its
 * own `lastSeq` as `seq` gets what it missed as pushes after this; with a later one, this state is all there is.
 */
export function joinAck(runtime: Runtime, session: RtcSession, mode: JoinAck["mode"], seq: number): JoinAck {
  const { room } = session;
  const { config } = runtime;
  const others = [...room.sessions.values()].filter((other) => other !== session && other.announced);
  return {
    mode,
    sessionId: session.id,
    resumeToken: session.resumeToken,
    resumeWindowSeconds: RESUME_WINDOW_SECONDS,
    seq,
    room: { id: room.id, name: room.name, recording: room.recording },
    participant: participantOf(session),
    participants: others.map(participantOf).map((other) => (session.waiting ? withoutTracks(other) : other)),
    serverName: room.placed?.serverName ?? "",
    region: room.placed?.region ?? "",
    iceServers: iceServersOf(runtime, session),
    permissions: session.permissions,
    limits: {
      maxMessageBytes: config.SIGNALING_MAX_MESSAGE_BYTES,
      messagesPerWindow: config.SIGNALING_MAX_MESSAGES_PER_WINDOW,
      windowSeconds: config.RATE_LIMIT_WINDOW_SECONDS,
      maxParticipants: config.SIGNALING_MAX_PARTICIPANTS_PER_ROOM,
    },
  };
}
