/**
 * The dependency descriptor, a header extension that names the spatial and temporal layer of each packet (AV1 RTP specification,
 * appendix A). Its keyframes carry a structure of templates; the packets after them name a template of it.
 */
import { BitReader } from "../codec/bit-reader.ts";

const MANDATORY_BYTES = 3;
const MAX_TEMPLATES = 64;
const MAX_SPATIAL_LAYERS = 4;
const NEXT_LAYER = { same: 0, temporal: 1, spatial: 2 } as const;

type Template = { spatial: number; temporal: number };

type Structure = {
  templateOffset: number;
  templates: Template[];
  spatialLayers: number;
  /** By spatial layer; empty when the structure has none. */
  heights: number[];
};

/** The fields are those of the last packet that was read. */
export class DependencyDescriptor {
  startsFrame = false;
  endsFrame = false;
  frameNumber = 0;
  spatial = 0;
  temporal = 0;
  #structure: Structure | null = null;

  /** 0 before the first structure. */
  get spatialLayers(): number {
    return this.#structure?.spatialLayers ?? 0;
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
    if (length > MANDATORY_BYTES) {
      const hasStructure = bits.flag();
      // The other flags announce lists that follow the structure.
      bits.bits(4);
      const structure = hasStructure ? readStructure(bits) : this.#structure;
      if (!structure || bits.overrun) return false;
      this.#structure = structure;
    }
    if (!this.#structure) return false;
    const { templates, templateOffset } = this.#structure;
    const template = templates[(templateId + MAX_TEMPLATES - templateOffset) % MAX_TEMPLATES];
    if (!template) return false;
    this.startsFrame = startsFrame;
    this.endsFrame = endsFrame;
    this.frameNumber = frameNumber;
    this.spatial = template.spatial;
    this.temporal = template.temporal;
    return true;
  }
}

function readStructure(bits: BitReader): Structure | null {
  const templateOffset = bits.bits(6);
  const decodeTargets = bits.bits(5) + 1;
  const templates = readTemplates(bits);
  const spatialLayers = (templates.at(-1)?.spatial ?? 0) + 1;
  if (templates.length > MAX_TEMPLATES || spatialLayers > MAX_SPATIAL_LAYERS) return null;
  // How each decode target needs each template.
  for (let n = 0; n < templates.length * decodeTargets; n++) bits.bits(2);
  for (const _ of templates) while (bits.flag() && !bits.overrun) bits.bits(4);
  skipChains(bits, templates.length, decodeTargets);
  const heights: number[] = [];
  if (bits.flag()) {
    for (let n = 0; n < spatialLayers; n++) {
      bits.bits(16);
      heights.push(bits.bits(16) + 1);
    }
  }
  return bits.overrun ? null : { templateOffset, templates, spatialLayers, heights };
}

function readTemplates(bits: BitReader): Template[] {
  const templates: Template[] = [];
  let spatial = 0;
  let temporal = 0;
  while (templates.length <= MAX_TEMPLATES && !bits.overrun) {
    templates.push({ spatial, temporal });
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

/** A number below `count`, of which the smaller ones have one bit less. */
function nonSymmetric(bits: BitReader, count: number): number {
  let width = 0;
  for (let left = count; left > 0; left >>= 1) width += 1;
  const short = 2 ** width - count;
  const value = bits.bits(width - 1);
  return value < short ? value : value * 2 + bits.bits(1) - short;
}
