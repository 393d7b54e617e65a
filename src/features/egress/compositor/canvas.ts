import type { Rectangle } from "../../recordings/composition/layout.ts";

/** A frame in YUV 4:2:0: the plane of luma, then two of chroma with half its width and height. */
export type Frame = { width: number; height: number; data: Uint8Array };

/** Luma and chroma of the background, in the limited range of video. */
const BACKGROUND_LUMA = 28;
const GREY = 128;

export const frameBytes = (width: number, height: number): number => (width * height * 3) / 2;

type Plane = { at: number; stride: number; shift: 0 | 1 };

const planesOf = (width: number, height: number): Plane[] => {
  const luma = width * height;
  return [
    { at: 0, stride: width, shift: 0 },
    { at: luma, stride: width / 2, shift: 1 },
    { at: luma + luma / 4, stride: width / 2, shift: 1 },
  ];
};

/**
 * Lays decoded frames side by side. Decoders scale their video to the size of its tile, so a frame is only copied, row by row.
 * Right after a change of the layout, a frame of another size is scaled coarsely until its decoder is replaced.
 */
export class Canvas {
  readonly data: Uint8Array;
  readonly #planes: Plane[];

  constructor(
    readonly width: number,
    readonly height: number,
  ) {
    this.data = new Uint8Array(frameBytes(width, height));
    this.#planes = planesOf(width, height);
  }

  clear(): void {
    const luma = this.width * this.height;
    this.data.fill(BACKGROUND_LUMA, 0, luma);
    this.data.fill(GREY, luma);
  }

  draw(frame: Frame, rectangle: Rectangle): void {
    const planes = planesOf(frame.width, frame.height);
    const isSameSize = frame.width === rectangle.width && frame.height === rectangle.height;
    for (const [index, to] of this.#planes.entries()) {
      const from = planes[index];
      if (!from) continue;
      if (isSameSize) this.#copy(frame, from, to, rectangle);
      else this.#scale(frame, from, to, rectangle);
    }
  }

  /** Draws a luma-only bitmap, clipped to the canvas. */
  drawText({ width, height, data }: Frame, x: number, y: number, maxWidth: number): void {
    const shown = Math.min(width, maxWidth, this.width - x) & ~1;
    const [luma, ...chroma] = this.#planes;
    if (!luma || shown <= 0) return;
    const rows = Math.min(height, this.height - y);
    for (let row = 0; row < rows; row++) {
      this.data.set(data.subarray(row * width, row * width + shown), (y + row) * luma.stride + x);
    }
    for (const { at, stride } of chroma) {
      for (let row = 0; row < rows >> 1; row++) {
        const start = at + ((y >> 1) + row) * stride + (x >> 1);
        this.data.fill(GREY, start, start + (shown >> 1));
      }
    }
  }

  #copy({ data }: Frame, from: Plane, to: Plane, { x, y, width, height }: Rectangle): void {
    const { shift } = to;
    const length = width >> shift;
    let source = from.at;
    let target = to.at + (y >> shift) * to.stride + (x >> shift);
    for (let row = height >> shift; row > 0; row--) {
      this.data.set(data.subarray(source, source + length), target);
      source += from.stride;
      target += to.stride;
    }
  }

  #scale(frame: Frame, from: Plane, to: Plane, { x, y, width, height }: Rectangle): void {
    const { shift } = to;
    const [columns, rows] = [width >> shift, height >> shift];
    const [inX, inY] = [(frame.width >> shift) / columns, (frame.height >> shift) / rows];
    const { data } = frame;
    for (let row = 0; row < rows; row++) {
      const source = from.at + Math.floor(row * inY) * from.stride;
      const target = to.at + ((y >> shift) + row) * to.stride + (x >> shift);
      for (let column = 0; column < columns; column++) {
        this.data[target + column] = data[source + Math.floor(column * inX)] as number;
      }
    }
  }
}
