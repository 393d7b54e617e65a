import type { VideoFrame } from "./video-source.ts";

/** Colour bars of 320 × 180, one VP8 keyframe: enough to see that a picture arrives, and that it is the right one. */
const KEYFRAME = [
  "8CYAnQEqQAG0AAAHCIWFiIWEiAICAyJVxfiX4PdLvSvgH43+BH62/1vfA/sl8gqoH8B/kv4Zf0ngAf//6f9ti/gP9F/gPAA/wHrAf4D/CvX/6v",
  "/Tc/Ev9H+GZ6f91/pA/1X/AKrPpDqu+i9kw7s3eExeHXEBrNiLpjpC+qo9HVPgrNbZdeznuDNnLhpmDeB/9tPkiaik2wdaRAYABve4Y8GDKp/9",
  "tPkiaik2wx4EG8D/7afJE1FJtg60iAwADe9wx4MGH/6b+WphUQb3cSjxC/gR96AEq1b5gVExVrDZsbtzhpE15u72+4L8l1uSkyuCMLdUZbCrjX",
  "HcfBddl9qkNTWs0vpLgi+wiHMjbWqfEMjXHX6ugdJ5T/4diHcTav46nQBtadK30vPzXxLoErliEZQdjhglq0997hjwI7ZTlPgA/v3xS+TaVg5N",
  "mWN4MshGWN4OwI5MTHNKeCIa+DGPHuzArq0+nb3y/wTlF8IeNICZlrPHXOkNbmJNYgcKxNYgcKELS/zzhSeB1ZWGeAwjZX7uUOrNhda0C+wIS/",
  "twUwPtHZIPmKnD29IV1+ZULdqzXtvHhoCfam9+mc79QAKZRxl9UH4/bvN5e93WGBkST2SjU0D7eKIpIIob7AyyO6bGv7l0PHXLiFnIq+3Z+E//",
  "x8aPnXRsBRdLTSGp2yDWX9F3JH//z0Fa/pKqg3XrPVPy6jk0N+3kXhFkS4H90VqnMhHsHDxztGKdB8jTIuPwTn5mMJ9NN//QmF5J8gNH6TGZcL",
  "mCsSlxJPa4x7oGZB8sDI4ywbTOfiQgLvrIlB4+sx/VczXqOmd0n38Q0rNFVm6UIHIZ/YwVLSDfDJmD+X4H5VoBRIRuN0yQAAt3kg5IHO8UyJZW",
  "ay0UljoAAA==",
].join("");

/** The bars, ten times a second, until nobody asks any more. */
export async function* bars(): AsyncGenerator<VideoFrame, void, void> {
  const data = Uint8Array.from(Buffer.from(KEYFRAME, "base64"));
  for (let timestampMs = 0; ; timestampMs += 100) yield { data, keyframe: true, timestampMs };
}
