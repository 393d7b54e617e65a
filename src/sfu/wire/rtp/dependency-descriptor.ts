/**
 * The dependency descriptor, a header extension that names the spatial and temporal layer of each packet (AV1 RTP specification,
 * appendix A). Its keyframes carry a structure of templates; the packets after them name a template of it.
 */
import { BitReader } from "../codec/bit-reader.ts";

const MANDATORY_BYTES = 3;
const MAX_TEMPLATES = 64;
const MAX_SPATIAL_LAYERS = 4;
const NEXT_LAYER = { same: 0, temporal: 1, spatial: 2 } as const;

/** How a frame concerns a decode target, as far as it matters here. */
const INDICATION = { notPresent: 0, switch: 2 } as const;

/** `entersUpTo` is the highest temporal layer that decodes from a frame of the template on, if the frame itself does. */
type Template = { spatial: number; temporal: number; entersUpTo: number };
type DecodeTarget = { spatial: number; temporal: number };

type Structure = {
  templateOffset: number;
  templates: Template[];
  decodeTargets: DecodeTarget[];
  spatialLayers: number;
  temporalLayers: number;
  /** The height of each spatial layer; empty if the structure has none. */
  heights: number[];
};

/** The fields are those of the last packet that was read. */
export class DependencyDescriptor {
  startsFrame = false;
  endsFrame = false;
  frameNumber = 0;
  spatial = 0;
  temporal = 0;
  entersUpTo = 0;
  #structure: Structure | null = null;

  /** 0 before the first structure. */
  get spatialLayers(): number {
    return this.#structure?.spatialLayers ?? 0;
  }

  get temporalLayers(): number {
    return this.#structure?.temporalLayers ?? 1;
  }

  get heights(): readonly number[] {
    return this.#structure?.heights ?? [];
  }

  /** Returns false for a malformed descriptor, and for one whose template is not known. */
  read(data: Uint8Array, offset: number, length: number): boolean {
    if (length < MANDATORY_BYTES || offset + length > data.length) return false;
    const bits = new BitReader(data, offset, length);
    const startsFrame = bits.flag();
    const endsFrame = bits.flag();
    const templateId = bits.bits(6);
    const frameNumber = bits.bits(16);
    let ownIndications: number[] | null = null;
    if (length > MANDATORY_BYTES) {
      const hasStructure = bits.flag();
      const hasActiveTargets = bits.flag();
      const hasIndications = bits.flag();
      // The other flags announce lists that follow.
      bits.bits(2);
      const structure = hasStructure ? readStructure(bits) : this.#structure;
      if (!structure || bits.overrun) return false;
      this.#structure = structure;
      if (hasActiveTargets) bits.bits(structure.decodeTargets.length);
      if (hasIndications) ownIndications = structure.decodeTargets.map(() => bits.bits(2));
      if (bits.overrun) return false;
    }
    if (!this.#structure) return false;
    const { templates, templateOffset, decodeTargets } = this.#structure;
    const template = templates[(templateId + MAX_TEMPLATES - templateOffset) % MAX_TEMPLATES];
    if (!template) return false;
    this.startsFrame = startsFrame;
    this.endsFrame = endsFrame;
    this.frameNumber = frameNumber;
    this.spatial = template.spatial;
    this.temporal = template.temporal;
    this.entersUpTo = ownIndications
      ? highestEntered(ownIndications, decodeTargets, template.spatial)
      : template.entersUpTo;
    return true;
  }
}

function readStructure(bits: BitReader): Structure | null {
  const templateOffset = bits.bits(6);
  const targets = bits.bits(5) + 1;
  const templates = readTemplates(bits);
  const spatialLayers = (templates.at(-1)?.spatial ?? 0) + 1;
  if (templates.length > MAX_TEMPLATES || spatialLayers > MAX_SPATIAL_LAYERS) return null;
  const indications = templates.map(() => Array.from({ length: targets }, () => bits.bits(2)));
  const decodeTargets = Array.from({ length: targets }, (_, target) => targetOf(templates, indications, target));
  for (const [n, template] of templates.entries())
    template.entersUpTo = highestEntered(indications[n] ?? [], decodeTargets, template.spatial);
  for (const _ of templates) while (bits.flag() && !bits.overrun) bits.bits(4);
  skipChains(bits, templates.length, targets);
  const heights: number[] = [];
  if (bits.flag()) {
    for (let n = 0; n < spatialLayers; n++) {
      bits.bits(16);
      heights.push(bits.bits(16) + 1);
    }
  }
  const temporalLayers = Math.max(...templates.map(({ temporal }) => temporal)) + 1;
  return bits.overrun ? null : { templateOffset, templates, decodeTargets, spatialLayers, temporalLayers, heights };
}

/** The highest layers that a decode target has frames of. */
function targetOf(templates: readonly Template[], indications: readonly number[][], target: number): DecodeTarget {
  const layers = { spatial: 0, temporal: 0 };
  for (const [n, { spatial, temporal }] of templates.entries()) {
    if (indications[n]?.[target] === INDICATION.notPresent) continue;
    layers.spatial = Math.max(layers.spatial, spatial);
    layers.temporal = Math.max(layers.temporal, temporal);
  }
  return layers;
}

function highestEntered(indications: readonly number[], targets: readonly DecodeTarget[], spatial: number): number {
  let highest = 0;
  for (const [n, target] of targets.entries())
    if (target.spatial === spatial && indications[n] === INDICATION.switch)
      highest = Math.max(highest, target.temporal);
  return highest;
}

function readTemplates(bits: BitReader): Template[] {
  const templates: Template[] = [];
  let spatial = 0;
  let temporal = 0;
  while (templates.length <= MAX_TEMPLATES && !bits.overrun) {
    templates.push({ spatial, temporal, entersUpTo: 0 });
    const next = bits.bits(2);
    if (next === NEXT_LAYER.temporal) temporal += 1;
    else if (next === NEXT_LAYER.spatial) {
      temporal = 0;
      spatial += 1;
    } else if (next !== NEXT_LAYER.same) break;
  }
  return templates;
}

function skipChains(bits: BitReader, templates: number, decodeTargets: number): void {
  const chains = nonSymmetric(bits, decodeTargets + 1);
  if (chains === 0) return;
  for (let n = 0; n < decodeTargets; n++) nonSymmetric(bits, chains);
  for (let n = 0; n < templates * chains; n++) bits.bits(4);
}

/** Reads a number below `count`; the smaller numbers are written with one bit less. */
function nonSymmetric(bits: BitReader, count: number): number {
  let width = 0;
  for (let left = count; left > 0; left >>= 1) width += 1;
  const short = 2 ** width - count;
  const value = bits.bits(width - 1);
  return value < short ? value : value * 2 + bits.bits(1) - short;
}
