import { onLoopback, RoomLink } from "../../../features/egress/room-link.ts";
import type { ApiKeyCaller, RtcTokenCaller } from "../../../kernel/http/callers.ts";
import { type MediaProcess, startMediaProcess } from "../../../kernel/own-command.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { MediaNodes } from "../../../nodes/media-nodes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { RtcSession } from "../../signaling/rtc-session.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { toHttpRefusal } from "../connection.ts";
import { refOf } from "../negotiation/negotiator.ts";
import type { LivekitToken } from "../tokens.ts";
import { FORWARDER_COMMAND, type FromForwarder, type ToForwarder } from "./messages.ts";

type ForwardDeps = {
  signaling: SignalingCore;
  nodes: Pick<MediaNodes, "find" | "onEvent">;
  callerOf: (token: LivekitToken) => Promise<RtcTokenCaller>;
  isEncrypted: (roomId: string) => boolean;
};

/** A participant whose tracks are published in another room by a second session. */
type Forward = {
  source: RtcSession;
  destination: RtcSession;
  link: RoomLink;
  process: MediaProcess<ToForwarder>;
  /** The ids of the tracks in the other room, by their ids in this one. */
  trackIds: Map<string, string>;
};

export type Forwards = ReturnType<typeof createForwards>;

/** The longest that a participant's token may be valid. */
const SESSION_MS = 30 * 86_400_000;

/** Participants whose tracks are forwarded to other rooms, until they or the ones who stand for them there leave. */
export function createForwards(runtime: Runtime, { signaling, nodes, callerOf, isEncrypted }: ForwardDeps) {
  const { bus, config, ids, log, metrics, now } = runtime;
  const { join, membership, publisherLimit } = signaling;
  /** By the id of the session in the other room. */
  const running = new Map<string, Forward>();
  metrics.gaugeOf("stoa_forwards_running", "Participants who are forwarded to other rooms", () => running.size);

  function tokenOf(source: RtcSession, key: ApiKeyCaller, room: string): LivekitToken {
    const { identity, name, metadata, attributes, kind } = source;
    return {
      ...{ key, identity, tokenId: null, hash: `forward ${ids.uuid()}` },
      grant: { room, roomJoin: true, canPublish: true, canSubscribe: false, canPublishData: false },
      claims: { name: name ?? "", metadata: metadata ?? "", attributes, kind },
      ...{ signedAt: now(), expiresAt: now() + SESSION_MS },
    };
  }

  /** The process receives what is published, without end-to-end encrypted tracks: they could not be decrypted there. */
  function sendTracks({ source, process }: Forward): void {
    const tracks = [...source.tracks.values()]
      .filter(({ encryption }) => !encryption)
      .map(({ id: trackId, kind, source: from, name }) => ({ trackId, kind, source: from, ...(name && { name }) }));
    process.send({ type: "tracks", tracks });
  }

  async function negotiate(forward: Forward, message: FromForwarder): Promise<NegotiateAnswer> {
    const { source, destination, link, trackIds } = forward;
    if (message.room === "source") {
      const known = message.subscribe.filter(({ trackId }) => source.tracks.has(trackId));
      const answer = await link.negotiate(message.sdp, known);
      for (const { trackId } of known) source.publishing?.received(destination, trackId);
      return answer;
    }
    const { node } = destination.site;
    const known = message.publish.filter(({ clientTrackId }) => source.tracks.has(clientTrackId));
    const answer = await node.negotiate({ ...refOf(destination), sdp: message.sdp, subscribe: [], publish: known });
    for (const { clientTrackId, trackId } of answer.tracks) {
      if (trackIds.get(clientTrackId) === trackId) continue;
      trackIds.set(clientTrackId, trackId);
      if (source.tracks.get(clientTrackId)?.muted) mute(forward, clientTrackId, true);
    }
    return node.remote ? answer : { ...answer, sdp: onLoopback(answer.sdp) };
  }

  /** Errors are ignored, because the track may have ended in the destination in the meantime. */
  function mute({ destination, trackIds }: Forward, sourceTrackId: string, muted: boolean): void {
    const trackId = trackIds.get(sourceTrackId);
    if (trackId === undefined) return;
    destination.site.node.setTrackMuted({ ...refOf(destination), trackId, muted }).catch(() => {});
  }

  function unpublish({ destination, trackIds }: Forward, sourceTrackId: string): void {
    const trackId = trackIds.get(sourceTrackId);
    if (trackId === undefined) return;
    trackIds.delete(sourceTrackId);
    destination.site.node.unpublish({ ...refOf(destination), trackId }).catch(() => {});
  }

  bus.on("rtcConnection", ["trackPublished", "trackUnpublished", "left"], (event) => {
    const stopped = event.type === "left" ? running.get(event.sessionId) : undefined;
    if (stopped) {
      running.delete(event.sessionId);
      stopped.process.kill();
      void stopped.link.close();
    }
    for (const forward of [...running.values()]) {
      if (forward.source.id !== event.sessionId) continue;
      if (event.type === "left") membership.leave(forward.destination, "left");
      else {
        if (event.type === "trackUnpublished") unpublish(forward, event.trackId);
        sendTracks(forward);
      }
    }
  });
  nodes.onEvent((_serverName, event) => {
    if (event.type !== "trackMuted" && event.type !== "trackUnmuted") return;
    for (const forward of running.values())
      if (forward.source.id === event.participantId) mute(forward, event.trackId, event.type === "trackMuted");
  });

  /** The participant joins the other room a second time, without a client. */
  async function enter(source: RtcSession, caller: RtcTokenCaller): Promise<RtcSession> {
    const client = { ipAddress: "127.0.0.1", userAgent: null, sdk: "forward", openedAt: now() };
    const isGone = () => source.link.state === "left";
    const joined = join.join(caller, { connectionId: `forward-${ids.uuid()}` }, client, isGone);
    const { session } = await joined.catch((error) => {
      throw toHttpRefusal(error) ?? error;
    });
    session.link = { state: "headless", ice: null, forwarded: true };
    session.wantsMedia = true;
    membership.saveToNode(session);
    return session;
  }

  return {
    /** `roomName` is created if it does not exist. */
    async start(source: RtcSession, key: ApiKeyCaller, roomName: string): Promise<string> {
      if (running.size >= config.FORWARD_MAX_RUNNING)
        throw new ApiError(
          "SVC_RATE_LIMITED",
          `At most ${config.FORWARD_MAX_RUNNING} participants are forwarded at a time.`,
        );
      const caller = await callerOf(tokenOf(source, key, roomName));
      if (source.room.encrypted || isEncrypted(caller.roomId)) throw new ApiError("SVC_ROOM_ENCRYPTED");
      const destination = await enter(source, caller);
      const link = new RoomLink(nodes, source.room.id, ids.uuid);
      try {
        publisherLimit.take(destination, true);
        await link.open(source.site.serverName);
      } catch (error) {
        membership.leave(destination, "failed");
        throw error;
      }
      const process = startMediaProcess<ToForwarder, FromForwarder>(
        log,
        FORWARDER_COMMAND,
        (message) => {
          negotiate(forward, message).then(
            (answer) => process.send({ type: "answer", request: message.request, answer, error: null }),
            (error: Error) =>
              process.send({ type: "answer", request: message.request, answer: null, error: error.message }),
          );
        },
        (error) => {
          if (!running.has(destination.id)) return;
          log.warn({ error, roomId: source.room.id }, "livekit: forwarding of a participant failed");
          membership.leave(destination, "failed");
        },
      );
      const forward: Forward = { source, destination, link, process, trackIds: new Map() };
      running.set(destination.id, forward);
      sendTracks(forward);
      if (source.link.state === "left") membership.leave(destination, "left");
      return caller.roomId;
    },

    stopAll(): void {
      for (const { process } of running.values()) process.kill();
    },
  };
}
