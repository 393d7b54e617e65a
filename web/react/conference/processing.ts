import { useMemo, useState } from "react";
import type { Room, TrackProcessor } from "../../sdk/index.ts";
import { backgroundBlur, noiseSuppression } from "../../sdk/processors/index.ts";
import { toStoaError } from "../to-stoa-error.ts";

export type Processing = {
  noise: boolean;
  blur: boolean;
  setNoise: (on: boolean) => void;
  setBlur: (on: boolean) => void;
  /** The processors for devices that are opened from now on. */
  forMicrophone: () => TrackProcessor | undefined;
  forCamera: () => TrackProcessor | undefined;
};

/** Whether the user's noise is suppressed and the background blurred, in this call. */
export function useProcessing(room: Room | null, notify: (notice: string) => void): Processing {
  const [noise, chooseNoise] = useState(false);
  const [blur, chooseBlur] = useState(false);
  const makers = useMemo(
    () => ({
      noise: () =>
        noiseSuppression({
          onDisabled: () => {
            chooseNoise(false);
            notify("Noise suppression is off: this computer is too slow for it.");
          },
        }),
      blur: () =>
        backgroundBlur({
          onDisabled: () => {
            chooseBlur(false);
            void room?.localParticipant.disableCamera();
            notify("Your camera is off: this computer is too slow to blur the background.");
          },
        }),
    }),
    [room, notify],
  );
  const change = async (on: boolean, kind: "noise" | "blur") => {
    const choose = kind === "noise" ? chooseNoise : chooseBlur;
    choose(on);
    const track = room?.localParticipant.track(kind === "noise" ? "microphone" : "camera");
    try {
      await track?.setProcessor(on ? makers[kind]() : null);
    } catch (error) {
      choose(!on);
      notify(toStoaError(error).message);
    }
  };
  return {
    noise,
    blur,
    setNoise: (on) => void change(on, "noise"),
    setBlur: (on) => void change(on, "blur"),
    forMicrophone: () => (noise ? makers.noise() : undefined),
    forCamera: () => (blur ? makers.blur() : undefined),
  };
}
