import { StoaError } from "../errors.ts";
import type { TrackProcessor } from "../room/track-processor.ts";
import { createSegmenter, type Segmenter } from "./segmenter.ts";
import { type FrameSource, transformFrames } from "./video-frames.ts";

export type BackgroundOptions = {
  /** How many milliseconds a frame may take on average, 50 by default. A computer that needs more is too slow. */
  maxFrameMs?: number;
  /**
   * Called when this computer has become too slow. From then on the whole video is blurred, so that the background does not
   * suddenly appear: switch the camera off, or call `setProcessor(null)` if your user agrees.
   */
  onDisabled?: () => void;
};

/** Frames by which a computer is judged: a few at the start, then the average of these many. */
const TRIAL_FRAMES = 5;
const MEASURED_FRAMES = 60;
const BLUR_PIXELS = 12;

type Drawing = { canvas: OffscreenCanvas; context: OffscreenCanvasRenderingContext2D };

/** Blurs what is behind the person; `radius` is in pixels of a video of 720 lines. */
export function backgroundBlur({ radius = BLUR_PIXELS, ...options }: BackgroundOptions & { radius?: number } = {}) {
  return background(options, radius, null);
}

/** Shows an image behind the person, cut to the size of the video. */
export function backgroundImage(image: string | ImageBitmap, options: BackgroundOptions = {}): TrackProcessor {
  return background(options, BLUR_PIXELS, image);
}

function background(
  { maxFrameMs = 50, onDisabled }: BackgroundOptions,
  radius: number,
  image: string | ImageBitmap | null,
): TrackProcessor {
  let end: (() => void) | null = null;
  return {
    async init(track, { serverUrl }) {
      const [segmenter, backdrop] = await Promise.all([
        createSegmenter(serverUrl),
        typeof image === "string" ? loadImage(image) : image,
      ]);
      const drawing = createDrawing();
      const blurred = createDrawing();
      let tooSlow = false;
      let measured: number[] = [];
      const draw = async (frame: FrameSource, width: number, height: number) => {
        resize(drawing, width, height);
        if (tooSlow) return drawBlurred(drawing, blurred, frame, radius);
        const began = performance.now();
        await drawPerson(drawing, segmenter, frame);
        if (backdrop) drawCovering(drawing, backdrop);
        else drawBlurred(drawing, blurred, frame, radius);
        measured.push(performance.now() - began);
        if (measured.length === MEASURED_FRAMES) {
          tooSlow = average(measured) > maxFrameMs;
          measured = [];
          if (tooSlow) onDisabled?.();
        }
        return drawing.canvas;
      };
      const frames = transformFrames(track, draw);
      const stop = () => {
        frames.stop();
        segmenter.close();
      };
      try {
        await frames.first(TRIAL_FRAMES);
        // The first frame compiles shaders.
        if (average(measured.slice(1)) > maxFrameMs) throw tooSlowError();
      } catch (error) {
        stop();
        throw error;
      }
      end = stop;
      return frames.track;
    },
    destroy() {
      end?.();
      end = null;
    },
  };
}

async function drawPerson({ canvas, context }: Drawing, segmenter: Segmenter, frame: FrameSource): Promise<void> {
  const mask = await segmenter.maskOf(frame);
  context.globalCompositeOperation = "copy";
  context.drawImage(mask, 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-in";
  context.drawImage(frame, 0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "destination-over";
}

/** Draws the frame small and then large again: not every browser has filters on a canvas. */
function drawBlurred(to: Drawing, small: Drawing, frame: FrameSource, radius: number): OffscreenCanvas {
  const { width, height } = to.canvas;
  const scale = Math.max(1, (radius * height) / 720 / 2);
  resize(small, Math.ceil(width / scale), Math.ceil(height / scale));
  small.context.drawImage(frame, 0, 0, small.canvas.width, small.canvas.height);
  to.context.drawImage(small.canvas, 0, 0, width, height);
  return to.canvas;
}

function drawCovering({ canvas, context }: Drawing, image: ImageBitmap): void {
  const scale = Math.max(canvas.width / image.width, canvas.height / image.height);
  const [width, height] = [image.width * scale, image.height * scale];
  context.drawImage(image, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
}

function createDrawing(): Drawing {
  const canvas = new OffscreenCanvas(1, 1);
  const context = canvas.getContext("2d");
  if (!context) throw new StoaError("NO_PROCESSOR", "unsupported", "This browser cannot change video.");
  context.imageSmoothingQuality = "high";
  return { canvas, context };
}

function resize({ canvas }: Drawing, width: number, height: number): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
}

async function loadImage(url: string): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(await (await fetch(url)).blob());
  } catch (cause) {
    throw new StoaError("NO_IMAGE", "network", `The background image ${url} cannot be loaded.`, { cause });
  }
}

function average(values: number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function tooSlowError(): StoaError {
  return new StoaError("TOO_SLOW", "unsupported", "This computer is too slow to change the background of a video.");
}
