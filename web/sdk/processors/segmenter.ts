import { StoaError } from "../errors.ts";
import type { FrameSource } from "./video-frames.ts";

/** Tells a person from what is behind. */
export type Segmenter = {
  /** Where the person is in the frame. The mask is valid until the next call. */
  maskOf(frame: FrameSource): Promise<CanvasImageSource>;
  close(): void;
};

/** The parts of `@mediapipe/selfie_segmentation` that are used. It is a script, not a module. */
type SelfieSegmentation = {
  setOptions(options: { modelSelection: 0 | 1 }): void;
  onResults(listener: (results: { segmentationMask: CanvasImageSource }) => void): void;
  initialize(): Promise<void>;
  send(inputs: { image: CanvasImageSource }): Promise<void>;
  close(): Promise<void>;
};
type WithLibrary = {
  SelfieSegmentation?: new (options: { locateFile(name: string): string }) => SelfieSegmentation;
};

/** The model for wide videos. */
const LANDSCAPE = 1;

export async function createSegmenter(serverUrl: string): Promise<Segmenter> {
  const folder = `${serverUrl}/processors`;
  if (!(globalThis as WithLibrary).SelfieSegmentation) await loadScript(`${folder}/selfie_segmentation.js`);
  const { SelfieSegmentation } = globalThis as WithLibrary;
  if (!SelfieSegmentation) throw cannotLoad(folder);
  const library = new SelfieSegmentation({ locateFile: (name) => `${folder}/${name}` });
  library.setOptions({ modelSelection: LANDSCAPE });
  let mask: CanvasImageSource | null = null;
  library.onResults(({ segmentationMask }) => {
    mask = segmentationMask;
  });
  await library.initialize();
  return {
    async maskOf(frame) {
      // The library does not take frames of WebCodecs.
      const image = frame instanceof HTMLVideoElement ? frame : await createImageBitmap(frame);
      await library.send({ image });
      if (image instanceof ImageBitmap) image.close();
      if (!mask) throw new StoaError("NO_PROCESSOR", "unsupported", "This browser cannot segment video.");
      return mask;
    },
    close: () => void library.close(),
  };
}

function loadScript(src: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.crossOrigin = "anonymous";
    script.src = src;
    script.onload = () => resolve();
    script.onerror = () => reject(cannotLoad(src));
    document.head.append(script);
  });
}

function cannotLoad(url: string): StoaError {
  return new StoaError("NO_PROCESSOR", "network", `${url} cannot be loaded; does the page's policy allow its scripts?`);
}
