import { mainOf, type Placements } from "../../nodes/placement.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { Adopt } from "./adoption.ts";
import type { Membership } from "./membership.ts";
import { learnsQuality, learnsSpeakers } from "./rosters.ts";
import { isForeignTrack, mayReceive, type RtcSession, type SessionRegistry } from "./rtc-session.ts";
import type { ServerRequests } from "./server-requests.ts";

/** Turns the events of media nodes into pushes and session changes. Events of participants who left are ignored. */
export function createMediaEvents({
  registry,
  membership,
  placements,
  adopt,
  serverRequests,
}: {
  registry: SessionRegistry;
  membership: Membership;
  placements: Placements;
  adopt: Adopt;
  serverRequests: ServerRequests;
}): (serverName: string, event: MediaEvent) => void {
  function onParticipant(session: RtcSession, event: Extract<MediaEvent, { participantId: string }>): void {
    const { room, identity, client } = session;
    switch (event.type) {
      case "participantConnected":
        session.media = "connected";
        membership.emitChange(session, {
          type: "connected",
          transport: event.transport,
          remoteAddress: event.remoteAddress,
          joinTimeMs: membership.since(client.openedAt),
        });
        membership.announce(session);
        break;
      case "participantDisconnected":
        session.media = "disconnected";
        membership.emitChange(session, { type: "reconnecting", path: "media", reason: event.reason });
        membership.update(session);
        break;
      case "participantReconnected":
        session.media = "connected";
        membership.emitChange(session, { type: "reconnected", path: "media" });
        membership.update(session);
        break;
      case "participantFailed":
        session.media = "failed";
        membership.emitChange(session, { type: "mediaFailed", reason: event.reason });
        // A WHIP or WHEP client cannot send another offer.
        if (session.link.state === "headless") membership.leave(session, "failed");
        else membership.update(session);
        break;
      case "iceStateChanged":
        if (event.state === "checking" && session.media === "new") session.media = "connecting";
        membership.emitChange(session, { type: "iceStateChanged", state: event.state });
        break;
      case "dtlsStateChanged":
        membership.emitChange(session, { type: "dtlsStateChanged", state: event.state });
        break;
      case "trackPublished":
        if (isForeignTrack(session, event.track.id)) break;
        membership.publishes(session);
        session.tracks.set(event.track.id, event.track);
        withhold(session, event.track.id);
        membership.emitChange(session, { type: "trackPublished", track: event.track });
        membership.broadcast(room, { type: "track.published", identity, track: event.track });
        break;
      case "trackUnpublished":
        if (!session.tracks.delete(event.trackId)) break;
        if (session.tracks.size === 0) session.publishes = false;
        membership.emitChange(session, { type: "trackUnpublished", trackId: event.trackId });
        membership.broadcast(room, { type: "track.unpublished", identity, trackId: event.trackId });
        break;
      case "trackMuted":
      case "trackUnmuted": {
        const track = session.tracks.get(event.trackId);
        const muted = event.type === "trackMuted";
        if (track) session.tracks.set(track.id, { ...track, muted });
        membership.broadcast(room, {
          type: muted ? "track.muted" : "track.unmuted",
          identity,
          trackId: event.trackId,
        });
        break;
      }
      case "layersWanted":
        membership.push(session, { type: "layers.wanted", trackId: event.trackId, layers: event.layers });
        break;
      case "codecsWanted":
        membership.push(session, { type: "codecs.wanted", trackId: event.trackId, codecs: event.codecs });
        break;
      case "subscriptionChanged": {
        const { trackId, layer, paused, reason } = event;
        membership.push(session, { type: "subscription.changed", trackId, layer, paused, reason });
        break;
      }
      case "voicesChanged":
        membership.push(session, { type: "voices.changed", voices: event.voices });
        break;
      case "qualityChanged":
        membership.emitChange(session, { type: "qualityChanged", quality: event.quality });
        membership.broadcast(room, { type: "quality.changed", identity, quality: event.quality }, (viewer) =>
          learnsQuality(viewer, session),
        );
        break;
      case "mediaStalled":
        membership.emitChange(session, { type: "mediaStalled" });
        membership.push(session, { type: "media.stalled" });
        break;
      case "mediaFlows":
        membership.emitChange(session, { type: "mediaFlows" });
        membership.push(session, { type: "media.flows" });
        break;
      case "requestAnswered":
        serverRequests.answered(event);
        break;
      case "dataDropped":
        membership.push(session, {
          type: "data.dropped",
          messages: event.messages,
          reason: event.reason,
          ...(event.reader === undefined ? {} : { identity: event.reader }),
        });
        break;
      case "dataBehind":
        membership.push(session, { type: "data.behind", identity: event.reader, bytes: event.bytes });
        break;
      case "transportStats": {
        const { rttMs, jitterMs, packetLossPercent } = event.stats;
        // A node of an older version does not report the directions separately.
        const { uplinkLossPercent = null, downlinkLossPercent = null, availableOutBps, heldBack = false } = event.stats;
        const { uplinkWaitMs = null, serverBusyPercent = null } = event.stats;
        session.stats = event.stats;
        const directions = { uplinkLossPercent, downlinkLossPercent, availableOutBps, heldBack, uplinkWaitMs };
        const link = event.stats.usesLinks ? placements.linksInto(room.id, session.site.serverName) : null;
        const serverLink = {
          serverLinkLossPercent: link?.lossPercent ?? null,
          serverLinkRttMs: link?.rttMs ?? null,
          serverLinkLimitBps: link?.limitBps ?? null,
        };
        const figures = { rttMs, jitterMs, packetLossPercent, serverBusyPercent, ...directions, ...serverLink };
        membership.emitChange(session, { type: "stats", ...figures });
        break;
      }
    }
  }

  /** The loudest voices are delivered to participants that have not asked for each. */
  function withhold(publisher: RtcSession, trackId: string): void {
    if (!publisher.publishing) return;
    for (const other of publisher.room.sessions.values()) {
      if (other === publisher || mayReceive(other, trackId, publisher)) continue;
      const ref = { roomId: other.room.id, participantId: other.id };
      // A participant without permission to subscribe does not receive it either.
      other.site.node.updateSubscriptions({ ...ref, tracks: [{ trackId, mid: null }] }).catch(() => {});
    }
  }

  const senderOf = ({ roomId, from }: { roomId: string; from: string }) =>
    [...(registry.room(roomId)?.sessions.values() ?? [])].find(({ identity }) => identity === from);

  return (serverName, event) => {
    switch (event.type) {
      case "speakersChanged": {
        const room = registry.room(event.roomId);
        // Every site of the room has all voices, so only the main site's speakers count.
        if (room && mainOf(room)?.serverName === serverName) {
          membership.broadcast(room, { type: "speakers.changed", speakers: event.speakers }, learnsSpeakers);
        }
        break;
      }
      case "data": {
        const { from, topic, payload } = event;
        const recipients = event.recipients.flatMap((id) => registry.session(id) ?? []);
        membership.pushToMany(recipients, { type: "data", from, ...(topic === undefined ? {} : { topic }), payload });
        break;
      }
      case "relayedDataDropped": {
        const { messages, reason, reader } = event;
        const sender = senderOf(event);
        if (sender) membership.push(sender, { type: "data.dropped", messages, reason, identity: reader });
        break;
      }
      case "relayedDataBehind": {
        const sender = senderOf(event);
        if (sender) membership.push(sender, { type: "data.behind", identity: event.reader, bytes: event.bytes });
        break;
      }
      case "roomsFound":
        adopt(serverName, event);
        break;
      case "workerCrashed":
        for (const { roomId, participantIds, remains } of event.rooms) {
          const room = registry.room(roomId);
          if (!room?.sites.has(serverName)) continue;
          if (!remains) placements.forget(room, serverName);
          if (room.sites.size === 0) {
            membership.dismissAll(room, "node_lost");
            continue;
          }
          const lost = new Set(participantIds);
          for (const session of [...room.sessions.values()]) {
            if (session.site.serverName !== serverName || (remains && !lost.has(session.id))) continue;
            membership.dismiss(session, "node_lost");
          }
        }
        break;
      // The placements handle these events themselves.
      case "linkChanged":
      case "relayOffered":
      case "relayMuted":
      case "relayEnded":
      case "relayData":
      // The recordings feature handles these events itself.
      case "recordingFileStarted":
      case "recordingFileEnded":
      case "recordingProgress":
      case "recordingSlow":
      case "recordingPart":
      case "recordingFeed":
      case "recordingTrackOmitted":
      case "recordingNotStreamable":
      case "recordingEnded":
      case "recordingFailed":
        break;
      default: {
        const session = registry.session(event.participantId);
        if (session?.site.serverName === serverName) onParticipant(session, event);
      }
    }
  };
}
