/** Tells a publisher whether viewers need its video in another codec, so that it encodes one only while they do. */
import { BACKUP_CODECS, type BackupCodec } from "../../protocol/signaling.ts";
import type { Publication } from "./publication.ts";

/** The delay before a backup is requested, because a viewer may be about to leave, or the publisher about to change its codec. */
const BEGINS_AFTER_MS = 500;
const ENDS_AFTER_MS = 10_000;

/** A link to another worker, which says what its viewers need; null for nothing. */
type DemandingLink = { wantedBackup(publication: Publication): BackupCodec | null };

export class BackupDemand {
  readonly #demands = new Map<string, { lastNotified: BackupCodec | null; changedSinceMs: number | null }>();

  forget({ trackId }: Publication): void {
    this.#demands.delete(trackId);
  }

  /** Returns the codecs that are wanted besides the track's own from now on, or null when they have not changed. */
  update(publication: Publication, links: Iterable<DemandingLink>, nowMs: number): BackupCodec[] | null {
    if (publication.kind !== "video" || !publication.codec) return null;
    const wanted = wantedBackup(publication, links);
    const demand = this.#demands.get(publication.trackId) ?? { lastNotified: null, changedSinceMs: null };
    if (wanted === demand.lastNotified) {
      demand.changedSinceMs = null;
      return null;
    }
    this.#demands.set(publication.trackId, demand);
    demand.changedSinceMs ??= nowMs;
    // The worker of the publisher waits for all others.
    const delayMs = wanted === null ? ENDS_AFTER_MS : BEGINS_AFTER_MS;
    if (publication.isHome && nowMs - demand.changedSinceMs < delayMs) return null;
    demand.changedSinceMs = null;
    demand.lastNotified = wanted;
    return wanted === null ? [] : [wanted];
  }
}

function wantedBackup(publication: Publication, links: Iterable<DemandingLink>): BackupCodec | null {
  const { backup } = publication;
  const used = backup && backup.subscriptions.length > 0 ? backup.codec?.codec : undefined;
  const readable = publication.subscriptions.flatMap(({ readableInstead }) =>
    readableInstead ? [readableInstead] : [],
  );
  const elsewhere = [...links].map((link) => link.wantedBackup(publication));
  const wanted = (codec: BackupCodec) =>
    codec === used || elsewhere.includes(codec) || readable.some((codecs) => codecs.includes(codec));
  return BACKUP_CODECS.find((codec) => codec !== publication.codec?.codec && wanted(codec)) ?? null;
}
