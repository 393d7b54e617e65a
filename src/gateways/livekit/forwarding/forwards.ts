import { isDeepStrictEqual } from "node:util";
import { onLoopback, RoomLink } from "../../../features/egress/room-link.ts";
import { SIGNED_TOKEN_MAX_MS } from "../../../features/rooms/token-cutoffs.ts";
import type { ApiKeyCaller, RtcTokenCaller } from "../../../kernel/http/callers.ts";
import { type MediaProcess, startMediaProcess } from "../../../kernel/own-command.ts";
import { shareProblem } from "../../../kernel/project-share.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { MediaNodes } from "../../../nodes/media-nodes.ts";
import { ApiError } from "../../../protocol/errors.ts";
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { Layer } from "../../../protocol/room-records.ts";
import type { RtcSession } from "../../signaling/rtc-session.ts";
import type { SignalingCore } from "../../signaling/signaling.ts";
import { toHttpRefusal } from "../connection.ts";
import { refOf } from "../negotiation/negotiator.ts";
import type { LivekitToken } from "../tokens.ts";
import { FORWARDER_COMMAND, type FromForwarder, LAYERS, type ToForwarder } from "./messages.ts";

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
  links: Record<Layer, SourceLink>;
  process: MediaProcess<ToForwarder>;
  /** The ids of the tracks in the other room, by their ids in this one. */
  trackIds: Map<string, string>;
  /** The layers of each track that viewers in the other room want. All layers are wanted of a track that is missing here. */
  wantedLayers: Map<string, readonly Layer[]>;
  /** The profile that was last copied from the participant. The other room may change its own copy. */
  profile: Profile;
};

/** A hidden participation in the participant's own room, which receives one layer of its tracks. */
type SourceLink = { room: RoomLink; opened: Promise<void> | null; mids: Map<string, string> };
type Profile = Pick<RtcSession, "name" | "metadata" | "attributes">;

const profileOf = ({ name, metadata, attributes }: RtcSession): Profile => ({ name, metadata, attributes });

export type Forwards = ReturnType<typeof createForwards>;

/** Participants whose tracks are forwarded to other rooms, until they or the ones who stand for them there leave. */
export function createForwards(runtime: Runtime, { signaling, nodes, callerOf, isEncrypted }: ForwardDeps) {
  const { bus, config, ids, log, metrics, now } = runtime;
  const { join, membership, publisherLimit } = signaling;
  /** Forwards by the id of the session in the other room. */
  const running = new Map<string, Forward>();
  /** The forwards that are being started. They count, so that requests at the same time do not start more than the limit allows. */
  const starting = new Set<{ projectId: string }>();
  metrics.gaugeOf("stoa_forwards_running", "Participants who are forwarded to other rooms", () => running.size);

  function tokenOf(source: RtcSession, key: ApiKeyCaller, room: string): LivekitToken {
    const { identity, name, metadata, attributes, kind } = source;
    return {
      key,
      identity,
      tokenId: null,
      hash: `forward ${ids.uuid()}`,
      grant: { room, roomJoin: true, canPublish: true, canSubscribe: false, canPublishData: false },
      claims: { name: name ?? "", metadata: metadata ?? "", attributes, kind },
      signedAt: now(),
      expiresAt: now() + SIGNED_TOKEN_MAX_MS,
    };
  }

  /**
   * Tells the process which tracks to forward. End-to-end encrypted tracks are left out, because they could not be decrypted in the
   * other room.
   */
  function sendTracks({ source, process }: Forward): void {
    const tracks = [...source.tracks.values()]
      .filter(({ encryption }) => !encryption)
      .map(({ id: trackId, kind, source: from, name, simulcast }) => ({
        trackId,
        kind,
        source: from,
        simulcast,
        ...(name && { name }),
      }));
    process.send({ type: "tracks", tracks });
  }

  async function receive(
    forward: Forward,
    message: Extract<FromForwarder, { room: "source" }>,
  ): Promise<NegotiateAnswer> {
    const { source, destination, links } = forward;
    const { layer } = message;
    const link = links[layer];
    // A participation that is opened after the end would never be closed.
    if (!running.has(destination.id)) throw new Error("the participant is not forwarded any more");
    link.opened ??= link.room.open(source.site.serverName);
    await link.opened;
    const known = message.subscribe.filter(({ trackId }) => source.tracks.has(trackId));
    link.mids = new Map(known.map(({ trackId, mid }) => [trackId, mid]));
    const answer = await link.room.negotiate(
      message.sdp,
      known.map((section) => ({ ...section, layer })),
    );
    for (const { trackId } of known) {
      source.publishing?.received(destination, trackId);
      pauseUnwanted(forward, trackId, layer);
    }
    return answer;
  }

  /** A layer that nobody in the other room wants is not received, so that the publisher may stop encoding it. */
  function pauseUnwanted({ source, links, wantedLayers }: Forward, trackId: string, layer: Layer): void {
    const wanted = wantedLayers.get(trackId);
    const mid = links[layer].mids.get(trackId);
    if (!wanted || mid === undefined) return;
    // A track without simulcast is received on the link for the highest layer, whatever its layer is called.
    const paused = source.tracks.get(trackId)?.simulcast ? !wanted.includes(layer) : wanted.length === 0;
    links[layer].room.update([{ trackId, mid, paused }]).catch(() => {});
  }

  function layersWanted(forward: Forward, destinationTrackId: string, layers: readonly Layer[]): void {
    for (const [trackId, id] of forward.trackIds) {
      if (id !== destinationTrackId) continue;
      forward.wantedLayers.set(trackId, layers);
      for (const layer of LAYERS) pauseUnwanted(forward, trackId, layer);
    }
  }

  async function negotiate(forward: Forward, message: FromForwarder): Promise<NegotiateAnswer> {
    if (message.room === "source") return receive(forward, message);
    const { source, destination, trackIds } = forward;
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

  function unpublish({ destination, trackIds, wantedLayers }: Forward, sourceTrackId: string): void {
    const trackId = trackIds.get(sourceTrackId);
    if (trackId === undefined) return;
    trackIds.delete(sourceTrackId);
    wantedLayers.delete(sourceTrackId);
    destination.site.node.unpublish({ ...refOf(destination), trackId }).catch(() => {});
  }

  bus.on("rtcConnection", ["trackPublished", "trackUnpublished", "left"], (event) => {
    const stopped = event.type === "left" ? running.get(event.sessionId) : undefined;
    if (stopped) {
      running.delete(event.sessionId);
      stopped.process.kill();
      for (const layer of LAYERS) void stopped.links[layer].room.close();
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
  bus.on("participantUpdated", ({ sessionId }) => {
    for (const forward of running.values()) {
      const { source, destination, profile } = forward;
      if (source.id !== sessionId || isDeepStrictEqual(profile, profileOf(source))) continue;
      forward.profile = profileOf(source);
      Object.assign(destination, forward.profile);
      membership.update(destination);
    }
  });
  nodes.onEvent((_serverName, event) => {
    if (event.type === "layersWanted") {
      const forward = running.get(event.participantId);
      if (forward) layersWanted(forward, event.trackId, event.layers);
    } else if (event.type === "trackMuted" || event.type === "trackUnmuted") {
      for (const forward of running.values())
        if (forward.source.id === event.participantId) mute(forward, event.trackId, event.type === "trackMuted");
    }
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

  async function start(source: RtcSession, key: ApiKeyCaller, roomName: string): Promise<string> {
    const caller = await callerOf(tokenOf(source, key, roomName));
    if (source.room.encrypted || isEncrypted(caller.roomId)) throw new ApiError("SVC_ROOM_ENCRYPTED");
    const destination = await enter(source, caller);
    const linkOf = (): SourceLink => ({
      room: new RoomLink(nodes, source.room.id, ids.uuid),
      opened: null,
      mids: new Map(),
    });
    const links = { low: linkOf(), medium: linkOf(), high: linkOf() };
    try {
      publisherLimit.take(destination, true);
      links.high.opened = links.high.room.open(source.site.serverName);
      await links.high.opened;
      // Nobody would end the process of a participant that another forward has replaced, or that was removed.
      if (destination.link.state === "left")
        throw new ApiError("SVC_CONFLICT", "The participant left the other room while it was being forwarded.");
    } catch (error) {
      void links.high.room.close();
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
    const forward: Forward = {
      source,
      destination,
      links,
      process,
      trackIds: new Map(),
      wantedLayers: new Map(),
      profile: profileOf(source),
    };
    running.set(destination.id, forward);
    sendTracks(forward);
    if (source.link.state === "left") membership.leave(destination, "left");
    return caller.roomId;
  }

  return {
    /** `roomName` is created if it does not exist. */
    async start(source: RtcSession, key: ApiKeyCaller, roomName: string): Promise<string> {
      const place = { projectId: key.projectId };
      const taken = [...starting, ...[...running.values()].map(({ source }) => source.room)];
      const limits = { ofServer: config.FORWARD_MAX_RUNNING, ofProject: config.FORWARD_MAX_PER_PROJECT };
      const full = shareProblem(key.projectId, taken, { ...limits, what: "forwards of participants" });
      if (full !== null) throw new ApiError("SVC_RATE_LIMITED", full);
      starting.add(place);
      try {
        return await start(source, key, roomName);
      } finally {
        starting.delete(place);
      }
    },

    stopAll(): void {
      for (const { process } of running.values()) process.kill();
    },
  };
}
