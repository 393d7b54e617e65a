/** What happens when a device fails, is exchanged or removed. Loaded when that happens. */
import { type ErrorReason, StoaError } from "../errors.ts";
import type { LocalTrack } from "./local-track.ts";

export type Capture = (constraints: MediaStreamConstraints) => Promise<MediaStreamTrack>;

export async function switchDevice(track: LocalTrack, deviceId: string, capture: Capture): Promise<void> {
  const wanted = { [track.kind]: { ...track.sourceTrack.getConstraints(), deviceId: { exact: deviceId } } };
  try {
    await track.replace(await capture(wanted));
  } catch (error) {
    // Phones open only one camera at a time.
    if ((error as { reason?: string }).reason !== "device-in-use") throw error;
    track.sourceTrack.stop();
    await track.replace(await capture(wanted));
  }
}

/** Takes the default device in place of one that is gone. */
export async function replaceDevice(track: LocalTrack, capture: Capture): Promise<void> {
  const { deviceId: _, ...wanted } = track.sourceTrack.getConstraints();
  await track.replace(await capture({ [track.kind]: wanted }));
}

const DEVICE_ERRORS: Record<string, [ErrorReason, string]> = {
  NotAllowedError: ["permission-denied", "The user or the browser's settings denied access to the device."],
  SecurityError: ["permission-denied", "The page's permissions policy does not allow access to devices."],
  NotFoundError: ["device-not-found", "The device is not connected."],
  OverconstrainedError: ["device-not-found", "No connected device meets the constraints."],
  NotReadableError: ["device-in-use", "Another program uses the device, or it has failed."],
  AbortError: ["device-in-use", "The device stopped while it was opened."],
};

export function deviceError(error: unknown): StoaError {
  if (error instanceof StoaError) return error;
  const { name = "Error", message = "" } = error as Error;
  const [reason, text] = DEVICE_ERRORS[name] ?? ["unsupported" as const, message];
  return new StoaError(name, reason, text, { cause: error });
}
