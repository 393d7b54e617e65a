/** Frames of a camera: of WebCodecs where the browser has them, else an element that shows the video. */
export type FrameSource = VideoFrame | HTMLVideoElement;
export type DrawFrame = (frame: FrameSource, width: number, height: number) => Promise<OffscreenCanvas>;

export type TransformedFrames = {
  track: MediaStreamTrack;
  /** Resolves when this many frames have been drawn; rejects if one cannot be drawn. */
  first(count: number): Promise<void>;
  stop(): void;
};

type Generator = MediaStreamTrack & { writable: WritableStream<VideoFrame> };
/** Chromium's interfaces for frames in a page. */
type BreakoutBox = {
  MediaStreamTrackProcessor?: new (options: { track: MediaStreamTrack }) => { readable: ReadableStream<VideoFrame> };
  MediaStreamTrackGenerator?: new (options: { kind: "video" }) => Generator;
};

/** Redraws every frame of a track. Frames that come while one is being drawn are left out. */
export function transformFrames(track: MediaStreamTrack, draw: DrawFrame): TransformedFrames {
  let drawn = 0;
  let onDrawn = (_error?: unknown) => {};
  const counted: DrawFrame = async (...frame) => {
    try {
      const canvas = await draw(...frame);
      drawn++;
      onDrawn();
      return canvas;
    } catch (error) {
      onDrawn(error);
      throw error;
    }
  };
  const { MediaStreamTrackProcessor, MediaStreamTrackGenerator } = globalThis as BreakoutBox;
  // A hidden page shows no video, so elements are only for browsers without the other interface.
  const frames =
    MediaStreamTrackProcessor && MediaStreamTrackGenerator
      ? fromStream(new MediaStreamTrackProcessor({ track }), new MediaStreamTrackGenerator({ kind: "video" }), counted)
      : fromElement(track, counted);
  const first = (count: number) =>
    new Promise<void>((resolve, reject) => {
      onDrawn = (error) => {
        if (error !== undefined) reject(error);
        else if (drawn >= count) resolve();
      };
      onDrawn();
    });
  return { ...frames, first };
}

function fromStream(source: { readable: ReadableStream<VideoFrame> }, output: Generator, draw: DrawFrame) {
  const reader = source.readable.getReader();
  const writer = output.writable.getWriter();
  const run = async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      const frame = next.value;
      try {
        const { timestamp, displayWidth, displayHeight } = frame;
        const canvas = await draw(frame, displayWidth, displayHeight);
        await writer.write(new VideoFrame(canvas, { timestamp }));
      } finally {
        frame.close();
      }
    }
  };
  // Once the track has been stopped, neither end can be used any more.
  const stop = () => {
    reader.cancel().catch(() => {});
    output.stop();
  };
  run().catch(stop);
  return { track: output as MediaStreamTrack, stop };
}

function fromElement(source: MediaStreamTrack, draw: DrawFrame) {
  const video = document.createElement("video");
  video.muted = true;
  video.playsInline = true;
  video.srcObject = new MediaStream([source]);
  const shown = document.createElement("canvas");
  const [output] = shown.captureStream().getVideoTracks();
  const context = shown.getContext("2d");
  let stopped = false;
  const onFrame = async () => {
    if (stopped) return;
    const canvas = await draw(video, video.videoWidth, video.videoHeight).catch(() => null);
    if (canvas === null) return stop();
    shown.width = canvas.width;
    shown.height = canvas.height;
    context?.drawImage(canvas, 0, 0);
    video.requestVideoFrameCallback(onFrame);
  };
  const stop = () => {
    stopped = true;
    video.srcObject = null;
    output?.stop();
  };
  video.requestVideoFrameCallback(onFrame);
  void video.play().catch(stop);
  return { track: output as MediaStreamTrack, stop };
}
