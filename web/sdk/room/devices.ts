import { StoaError } from "../errors.ts";

/** The kind of a media device, as in `MediaDeviceInfo`. */
export type DeviceKind = "audioinput" | "videoinput" | "audiooutput";

/** Lists the connected cameras, microphones and speakers. Labels are empty until the user has granted access once. */
export async function listDevices(kind?: DeviceKind): Promise<MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => kind === undefined || device.kind === kind);
}

/** Calls `listener` when a device is connected or removed; returns a function that removes the listener. */
export function onDevicesChanged(listener: () => void): () => void {
  navigator.mediaDevices.addEventListener("devicechange", listener);
  return () => navigator.mediaDevices.removeEventListener("devicechange", listener);
}

export async function capture(constraints: MediaStreamConstraints): Promise<MediaStreamTrack> {
  try {
    const stream = await requireDevices().getUserMedia(constraints);
    return firstTrack(stream);
  } catch (error) {
    throw await deviceError(error);
  }
}

/** Captures the screen that the user picks, with its audio where the browser supports it. */
export async function captureScreen(options: DisplayMediaStreamOptions): Promise<MediaStreamTrack[]> {
  const devices = requireDevices();
  if (!devices.getDisplayMedia) {
    throw new StoaError("NO_SCREEN_SHARING", "unsupported", "Browsers on phones cannot share the screen.");
  }
  try {
    return (await devices.getDisplayMedia(options)).getTracks();
  } catch (error) {
    throw await deviceError(error);
  }
}

function requireDevices(): MediaDevices {
  if (navigator.mediaDevices) return navigator.mediaDevices;
  throw new StoaError(
    "INSECURE_PAGE",
    "unsupported",
    "Browsers allow cameras and microphones only on https:// pages and on localhost.",
  );
}

function firstTrack(stream: MediaStream): MediaStreamTrack {
  const [track] = stream.getTracks();
  if (!track) throw new DOMException("no track", "NotFoundError");
  return track;
}

/** Few calls meet such an error. Without its explanation, the browser's own error is better than that of a failed import. */
async function deviceError(error: unknown): Promise<unknown> {
  return import("./device-changes.ts").then(
    (module) => module.deviceError(error),
    () => error,
  );
}
