import type { RtcPage } from "./rtc-page.ts";

export const JOIN_STAGES = ["opened", "joined", "offered", "answered", "ice", "connected", "decoded"] as const;
export type JoinMarks = Record<(typeof JOIN_STAGES)[number], number>;

/** Joins, watches a participant and leaves; returns the end of each stage in milliseconds since the socket was opened. */
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
  // Statistics are up to 50 ms old, while an element reports a frame shortly after it is decoded.
  const element = document.querySelector("video:last-of-type") as HTMLVideoElement;
  const shown = new Promise((resolve) => element.requestVideoFrameCallback(resolve));
  await rtc.offer({ watch: [identity] });
  // This is needed only if the tracks were not known at the offer.
  await rtc.watch(identity);
  await shown;
  mark("decoded");
  for (const old of document.querySelectorAll("video, audio")) old.remove();
  await rtc.ask("room.leave");
  rtc.pc.close();
  return marks as JoinMarks;
}
