/** Of one section of the server's answer: which numbers stand for which codec, and whose packets come on it. */
export type SectionAnswer = { codecs: Map<number, string>; ssrcs: number[] };

export function readAnswer(sdp: string): SectionAnswer[] {
  const [, ...sections] = sdp.split(/^m=/m);
  return sections.map((section) => ({
    codecs: new Map(
      [...section.matchAll(/^a=rtpmap:(\d+) ([^/\s]+)/gm)].map(([, number, name = ""]) => [
        Number(number),
        name === "opus" ? "opus" : name === "rtx" ? "rtx" : name.toUpperCase(),
      ]),
    ),
    ssrcs: [...new Set([...section.matchAll(/^a=ssrc:(\d+)/gm)].map(([, ssrc]) => Number(ssrc)))],
  }));
}
