/** The ICE fields of an SDP fragment (RFC 8840), with which WHIP clients trickle candidates and restart ICE; and offers. */
type IceCredentials = { ufrag: string; pwd: string };

/** The credentials of a fragment; null for a fragment with candidates only, undefined if the text is not a fragment. */
export function readFragment(text: string): IceCredentials | null | undefined {
  const ufrag = /^a=ice-ufrag:([A-Za-z0-9+/]{4,256})\r?$/m.exec(text)?.[1];
  const pwd = /^a=ice-pwd:([A-Za-z0-9+/]{22,256})\r?$/m.exec(text)?.[1];
  if (ufrag !== undefined && pwd !== undefined) return { ufrag, pwd };
  const hasCredentials = /^a=ice-(?:ufrag|pwd):/m.test(text);
  return !hasCredentials && /^a=(?:candidate:|end-of-candidates)/m.test(text) ? null : undefined;
}

/** An offer that asks for both directions, or names none, gets an answer with the one that the protocol has. */
export function oneWayOffer(offer: string, direction: "sendonly" | "recvonly"): string {
  const [session = "", ...sections] = offer.split(/^(?=m=)/m);
  if (ONE_WAY.test(session)) return offer;
  const directed = sections.map((section) => {
    if (ONE_WAY.test(section)) return section;
    return `${section.replace(/^a=sendrecv\r?\n/gm, "").replace(/\r?\n?$/, "\r\n")}a=${direction}\r\n`;
  });
  return [session, ...directed].join("");
}

const ONE_WAY = /^a=(?:sendonly|recvonly|inactive)\r?$/m;

/** The same offer for a new ICE session. Clients are found by their connectivity checks, so candidates are not needed. */
export function restartOffer(offer: string, { ufrag, pwd }: IceCredentials): string {
  return offer
    .replace(/^a=(?:candidate:.*|end-of-candidates)\r?\n/gm, "")
    .replace(/^a=ice-ufrag:\S*/gm, `a=ice-ufrag:${ufrag}`)
    .replace(/^a=ice-pwd:\S*/gm, `a=ice-pwd:${pwd}`);
}

const ICE_LINE = /^(?:m=(?!.* 0 )|a=(?:group:BUNDLE|ice-|mid:|candidate:|end-of-candidates))/;

/** The server's ICE credentials and candidates, from its answer. */
export function writeFragment(answer: string): string {
  const lines = answer.split("\r\n").filter((line) => ICE_LINE.test(line));
  return `${lines.join("\r\n")}\r\n`;
}
