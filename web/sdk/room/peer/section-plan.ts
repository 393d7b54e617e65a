import type { RemoteTrack } from "../remote-participant.ts";
import type { Section, Transport } from "./transport.ts";

/** Sections are made in advance, a few at a time: an offer costs far more than an idle section. */
const SPARE = 4;

/**
 * Gives every track that has none a section, new ones where too few are free. One person's voice and picture go to the
 * same position among their kinds where that can be had: the server sends those as one stream, which browsers keep in step.
 */
export function assignSections(transport: Transport, tracks: readonly RemoteTrack[]): void {
  const homeless = tracks.filter(({ id }) => !transport.sections.some(({ trackId }) => trackId === id));
  for (const kind of ["audio", "video"] as const) {
    const missing = homeless.filter((track) => track.kind === kind).length - free(transport, kind).length;
    if (missing > 0) transport.addSections(kind, Math.ceil(missing / SPARE) * SPARE);
  }
  for (const track of homeless) {
    const section = inStepWith(transport, track) ?? free(transport, track.kind)[0];
    if (section) section.trackId = track.id;
  }
}

function inStepWith(transport: Transport, track: RemoteTrack): Section | undefined {
  const companion = COMPANIONS[track.source];
  const other = companion && track.participant.track(companion);
  const position = other ? positions(transport, other.kind).findIndex(({ trackId }) => trackId === other.id) : -1;
  const section = positions(transport, track.kind)[position];
  return section?.trackId === null ? section : undefined;
}

const COMPANIONS: Partial<Record<RemoteTrack["source"], RemoteTrack["source"]>> = {
  camera: "microphone",
  microphone: "camera",
  screenShare: "screenShareAudio",
  screenShareAudio: "screenShare",
};

function positions({ sections }: Transport, kind: Section["kind"]): Section[] {
  return sections.filter((section) => section.kind === kind);
}

function free(transport: Transport, kind: Section["kind"]): Section[] {
  return positions(transport, kind).filter(({ trackId }) => trackId === null);
}
