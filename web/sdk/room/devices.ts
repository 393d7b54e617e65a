import { type ErrorReason, StoaError } from "../errors.ts";

/** As browsers name them. */
export type DeviceKind = "audioinput" | "videoinput" | "audiooutput";

/** The cameras, microphones and speakers of this machine. Names are empty until the user has allowed a device once. */
export async function listDevices(kind?: DeviceKind): Promise<MediaDeviceInfo[]> {
  const devices = await navigator.mediaDevices.enumerateDevices();
  return devices.filter((device) => kind === undefined || device.kind === kind);
}

/** Calls `listener` when a device is plugged in or pulled out; returns the function that stops it. */
export function onDevicesChanged(listener: () => void): () => void {
  navigator.mediaDevices.addEventListener("devicechange", listener);
  return () => navigator.mediaDevices.removeEventListener("devicechange", listener);
}

export async function capture(constraints: MediaStreamConstraints): Promise<MediaStreamTrack> {
  try {
    const stream = await requireDevices().getUserMedia(constraints);
    return firstTrack(stream);
  } catch (error) {
    throw deviceError(error);
  }
}

/** The chosen screen, and its sound where the browser offers it. */
export async function captureScreen(options: DisplayMediaStreamOptions): Promise<MediaStreamTrack[]> {
  const devices = requireDevices();
  if (!devices.getDisplayMedia) {
    throw new StoaError(
      "NO_SCREEN_SHARING",
      "unsupported",
      "This browser cannot share a screen; those of phones cannot.",
    );
  }
  try {
    return (await devices.getDisplayMedia(options)).getTracks();
  } catch (error) {
    throw deviceError(error);
  }
}

function requireDevices(): MediaDevices {
  if (navigator.mediaDevices) return navigator.mediaDevices;
  throw new StoaError(
    "INSECURE_PAGE",
    "unsupported",
    "Browsers allow cameras only on https:// pages and on localhost.",
  );
}

function firstTrack(stream: MediaStream): MediaStreamTrack {
  const [track] = stream.getTracks();
  if (!track) throw new DOMException("no track", "NotFoundError");
  return track;
}

const DEVICE_ERRORS: Record<string, [ErrorReason, string]> = {
  NotAllowedError: ["permission-denied", "The user, or the browser's settings, did not allow this device."],
  SecurityError: ["permission-denied", "This page may not use devices. Check its permissions policy."],
  NotFoundError: ["device-not-found", "No such device is connected."],
  OverconstrainedError: ["device-not-found", "No connected device can do what was asked for."],
  NotReadableError: ["device-in-use", "Another program uses the device, or it failed."],
  AbortError: ["device-in-use", "The device stopped while it was being opened."],
};

function deviceError(error: unknown): StoaError {
  if (error instanceof StoaError) return error;
  const { name = "Error", message = "" } = error as Error;
  const [reason, text] = DEVICE_ERRORS[name] ?? ["unsupported" as const, message];
  return new StoaError(name, reason, text, { cause: error });
}
