import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DependencyDescriptor } from "../../../../src/sfu/wire/rtp/dependency-descriptor.ts";
import { descriptor, descriptorWithStructure } from "../../dependency-descriptors.ts";

const packet = (template: number, frameNumber = 1) => ({ starts: true, ends: false, template, frameNumber });
const read = (reader: DependencyDescriptor, data: Uint8Array) => reader.read(data, 0, data.length);

describe("the dependency descriptor", () => {
  test("a structure names the layers of its own packet and of those after it", () => {
    const reader = new DependencyDescriptor();
    const structure = { spatial: 3, temporal: 3, offset: 60, heights: [180, 360, 720] };
    expect(read(reader, descriptor(packet(60)))).toBe(false);
    expect(read(reader, descriptorWithStructure(packet(60), structure))).toBe(true);
    expect(reader).toMatchObject({ spatial: 0, temporal: 0, spatialLayers: 3, heights: [180, 360, 720] });
    // Numbers of templates wrap at 64.
    for (const [template, spatial, temporal] of [
      [62, 0, 2],
      [63, 1, 0],
      [0, 1, 1],
      [4, 2, 2],
    ] as const) {
      expect(read(reader, descriptor({ starts: false, ends: true, template, frameNumber: 65_535 }))).toBe(true);
      expect(reader).toMatchObject({ spatial, temporal, startsFrame: false, endsFrame: true, frameNumber: 65_535 });
    }
    expect(read(reader, descriptor(packet(5)))).toBe(false);
    expect(reader.spatialLayers).toBe(3);
  });

  test("every number of layers is read, with and without sizes", () => {
    for (let spatial = 1; spatial <= 4; spatial++)
      for (let temporal = 1; temporal <= 4; temporal++)
        for (const heights of [[], [90, 180, 360, 720].slice(0, spatial)]) {
          const reader = new DependencyDescriptor();
          const last = spatial * temporal - 1;
          const data = descriptorWithStructure(packet(last), { spatial, temporal, offset: 0, heights });
          expect(read(reader, data)).toBe(true);
          expect(reader).toMatchObject({
            spatialLayers: spatial,
            spatial: spatial - 1,
            temporal: temporal - 1,
            heights,
          });
        }
  });

  test("a structure that is cut off changes nothing", () => {
    const reader = new DependencyDescriptor();
    const whole = descriptorWithStructure(packet(0), { spatial: 3, temporal: 1, offset: 0, heights: [180, 360, 720] });
    for (let length = 0; length < whole.length; length++) expect(reader.read(whole, 0, length)).toBe(false);
    expect(reader.spatialLayers).toBe(0);
  });

  test("no bytes make it throw, run on, or leave impossible layers", () => {
    const valid = descriptorWithStructure(packet(1), { spatial: 2, temporal: 2, offset: 0, heights: [1, 2] });
    const flipped = fc.tuple(fc.nat(valid.length - 1), fc.nat(255)).map(([at, value]) => valid.with(at, value));
    const reader = new DependencyDescriptor();
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 255 }), flipped), (data) => {
        read(reader, data);
        expect(reader.spatial).toBeLessThan(4);
        expect(reader.spatialLayers).toBeLessThanOrEqual(4);
      }),
      { numRuns: 3_000 },
    );
  });
});
