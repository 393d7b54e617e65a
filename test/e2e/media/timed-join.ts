import type { RtcPage } from "./rtc-page.ts";

export const JOIN_STAGES = ["opened", "joined", "offered", "answered", "ice", "connected", "decoded"] as const;
export type JoinMarks = Record<(typeof JOIN_STAGES)[number], number>;

/** Joins to watch somebody, and leaves again: when each stage was over, in milliseconds since the socket was opened. */
export async function timedJoin(rtc: RtcPage, url: string, token: string, identity: string): Promise<JoinMarks> {
  const startedAt = performance.now();
  const marks: Partial<JoinMarks> = {};
  const mark = (stage: keyof JoinMarks) => {
    marks[stage] ??= performance.now() - startedAt;
  };
  rtc.onStage = mark;
  rtc.pc.oniceconnectionstatechange = () => {
    if (rtc.pc.iceConnectionState === "connected") mark("ice");
  };
  rtc.pc.onconnectionstatechange = () => {
    if (rtc.pc.connectionState === "connected") mark("connected");
  };
  await rtc.join(url, token);
  rtc.receive(1);
  // Statistics are up to 50 ms old; an element tells at once, if a little after the decoder.
  const element = document.querySelector("video:last-of-type") as HTMLVideoElement;
  const shown = new Promise((resolve) => element.requestVideoFrameCallback(resolve));
  await rtc.offer({ watch: [identity] });
  // Nothing more to do, unless its tracks were not known yet.
  await rtc.watch(identity);
  await shown;
  mark("decoded");
  for (const old of document.querySelectorAll("video, audio")) old.remove();
  await rtc.ask("room.leave");
  rtc.pc.close();
  return marks as JoinMarks;
}
