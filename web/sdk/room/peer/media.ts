import type { RoomData } from "../../../../src/protocol/data/room-data.ts";
import type { Permissions } from "../../../../src/protocol/room-records.ts";
import type { BackupCodec, JoinAck } from "../../../../src/protocol/signaling.ts";
import type { Encryption } from "../../encryption/encryption.ts";
import { isLost, StoaError } from "../../errors.ts";
import type { LocalTrack } from "../local-track.ts";
import { MediaRecovery } from "./media-recovery.ts";
import { MuteSync } from "./mute-sync.ts";
import type { RoomConnection } from "./room-connection.ts";
import type { RoomStats, StatsReader } from "./stats.ts";
import type { Subscriptions } from "./subscriptions.ts";
import { Transport } from "./transport.ts";

export type MediaDeps = {
  connection: Pick<RoomConnection, "request" | "open" | "probe" | "startOver">;
  subscriptions: Subscriptions;
  localTracks: ReadonlySet<LocalTrack>;
  data: RoomData;
  /** Called when media stops or flows again. */
  onFlow: (flowing: boolean) => void;
  relayOnly: boolean;
  encryption: Encryption | null;
  onError: (error: unknown) => void;
  record: (type: string, data?: Record<string, unknown>) => void;
};

/** The media of a room: it owns the peer connection with its published tracks, data channels and recovery. */
export class Media {
  readonly #deps: MediaDeps;
  readonly #recovery: MediaRecovery;
  readonly #muteSync: MuteSync;
  #stats: StatsReader | null = null;
  #transport: Transport | null = null;
  #joined: JoinAck | null = null;
  #stopWatching: () => void = () => {};

  constructor(deps: MediaDeps) {
    this.#deps = deps;
    this.#muteSync = new MuteSync((trackId, muted) => deps.connection.request("track.mute", { trackId, muted }));
    this.#recovery = new MediaRecovery({
      signalingOpen: () => deps.connection.open,
      probe: (withinMs) => deps.connection.probe(withinMs),
      onFlow: deps.onFlow,
      onRemedy: (remedy, wasConnected) => {
        if (!wasConnected && this.#transport?.relayMissing) deps.record("error", { code: "TURN_UNREACHABLE" });
        deps.record("reconnecting", { how: remedy });
      },
      rebuild: async () => {
        if (this.#joined) await this.#open(this.#joined, (transport) => this.#recovery.replace(transport));
      },
      giveUp: (wasConnected) => {
        if (!wasConnected) deps.onError(new StoaError("MEDIA_UNREACHABLE", "udp-blocked", UDP_BLOCKED));
        deps.connection.startOver();
      },
    });
  }

  /** Opens a new peer connection after a join and publishes the local tracks again. */
  connect(joined: JoinAck): void {
    this.#muteSync.reset();
    this.#deps.data.newSession();
    this.#open(joined, (transport) => this.#recovery.watch(transport)).catch(this.#deps.onError);
  }

  /** The server reports that expected media does not arrive. */
  stalled(): void {
    this.#recovery.stalled();
  }

  /** The server reports which other codecs the viewers of a track need. */
  async backUp(track: LocalTrack | undefined, codecs: readonly BackupCodec[]): Promise<void> {
    const { sendBackup } = await import("./backup-codec.ts");
    if (track && this.#transport) await sendBackup(track, codecs, this.#transport);
  }

  voicesChanged(voices: Record<string, string>): void {
    this.#deps.subscriptions.voicesChanged(voices);
  }

  /** The server reports that media arrives again. */
  flows(): void {
    this.#recovery.flows();
  }

  async #open(joined: JoinAck, watch: (transport: Transport) => void): Promise<void> {
    const { iceServers, permissions } = joined;
    this.#transport?.close();
    const transport = new Transport({
      iceServers,
      relayOnly: this.#deps.relayOnly,
      encryption: this.#deps.encryption,
      request: this.#deps.connection.request,
      subscribed: () => this.#deps.subscriptions.mapping(),
      onState: (state) => {
        void this.#recordState(transport, state);
        this.#recovery.stateChanged(state);
      },
    });
    this.#transport = transport;
    this.#joined = joined;
    this.#stats = null;
    this.#stopWatching();
    this.#watchLimitation(transport);
    watch(transport);
    this.#prepare(transport, permissions);
    await Promise.all([...this.#deps.localTracks].map((track) => transport.send(track)));
    await this.#catchUp(transport);
  }

  /** Sends the changes that were made while the socket was disconnected. */
  resume(): void {
    const transport = this.#transport;
    if (!transport) return;
    this.#deps.subscriptions.update();
    // A connection whose first offer was lost needs only that offer, so the check comes after it.
    this.#catchUp(transport).then(this.#recovery.check, (error) => {
      this.#recovery.check();
      this.#deps.onError(error);
    });
  }

  permissionsChanged(permissions: Permissions): void {
    const transport = this.#transport;
    if (!transport || !this.#joined) return;
    this.#joined = { ...this.#joined, permissions };
    this.#prepare(transport, permissions);
    this.#catchUp(transport).catch(this.#deps.onError);
  }

  async publish(track: LocalTrack): Promise<void> {
    const transport = this.#transport;
    if (!transport) throw new StoaError("NOT_CONNECTED", "closed", "Join the room first.");
    await transport.send(track);
    try {
      await transport.negotiate();
    } catch (error) {
      // A lost offer is repeated by the next resume or join.
      if (isLost(error)) return;
      await transport.stopSending(track);
      throw error;
    }
    this.#watchLimitation(transport);
    this.#deps.record("track_published", { kind: track.kind, source: track.source });
  }

  async unpublish(track: LocalTrack): Promise<void> {
    const { kind, source, id } = track;
    await this.#transport?.stopSending(track);
    // If the request is lost, the offer after the resume no longer contains the track.
    if (id !== null) await this.#deps.connection.request("track.unpublish", { trackId: id }).catch(() => {});
    this.#deps.record("track_unpublished", { kind, source });
  }

  async syncMute(track: LocalTrack): Promise<void> {
    await this.#muteSync.sync(track);
  }

  /** Notes that the server has muted a track. */
  mutedByServer(track: LocalTrack): void {
    this.#muteSync.mutedByServer(track);
  }

  async stats(): Promise<RoomStats | null> {
    if (!this.#transport) return null;
    const { StatsReader } = await import("./stats.ts");
    this.#stats ??= new StatsReader();
    return this.#transport ? this.#stats.read(this.#transport.pc) : null;
  }

  close(): void {
    this.#deps.subscriptions.close();
    this.#recovery.close();
    this.#stopWatching();
    this.#transport?.close();
    this.#transport = null;
    this.#deps.data.close();
  }

  /** Records the path too, because `tcp` or `relay` explains why a call is slow. */
  async #recordState({ pc }: Transport, state: RTCPeerConnectionState): Promise<void> {
    const path = state === "connected" ? await pathOf(pc).catch(() => null) : null;
    this.#deps.record("ice_state_changed", path === null ? { state } : { state, path });
  }

  /** Only calls that send video load the code for it. */
  #watchLimitation(transport: Transport): void {
    if (![...this.#deps.localTracks].some(({ kind }) => kind === "video")) return;
    import("./quality-limitation.ts").then(({ watchQualityLimitation }) => {
      if (this.#transport !== transport) return;
      this.#stopWatching();
      this.#stopWatching = watchQualityLimitation(transport.pc, (limitation, seconds) =>
        this.#deps.record("participant_connection_quality_changed", { limitation, seconds }),
      );
    }, this.#deps.onError);
  }

  /** Opens the data channels and receiving sections that the permissions allow. */
  #prepare(transport: Transport, { publishData, subscribe }: Permissions): void {
    const { data } = this.#deps;
    data.permit(publishData);
    if (publishData && !data.isConnected) data.connect(transport);
    if (subscribe && transport.sections.length === 0) {
      transport.addSections("audio", FIRST_SECTIONS);
      transport.addSections("video", FIRST_SECTIONS);
    }
    if (this.#joined) this.#deps.subscriptions.use(subscribe ? transport : null, this.#joined);
  }

  async #catchUp(transport: Transport): Promise<void> {
    if (transport.negotiationNeeded) await transport.negotiate();
    if (this.#transport !== transport) return;
    for (const track of this.#deps.localTracks) await this.syncMute(track);
  }
}

async function pathOf(pc: RTCPeerConnection): Promise<RoomStats["path"]> {
  const { StatsReader } = await import("./stats.ts");
  return (await new StatsReader().read(pc)).path;
}

/** Enough for a call of three participants without a second offer. */
const FIRST_SECTIONS = 2;

const UDP_BLOCKED = "Media cannot reach the server. A firewall may block the media port; a TURN server helps.";
