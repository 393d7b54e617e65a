/** The SDP of WHIP: fragments (RFC 8840), with which clients trickle candidates and restart ICE, offers and answers. */
type IceCredentials = { ufrag: string; pwd: string };

/** The credentials of a fragment; null for a fragment with candidates only, undefined if the text is not a fragment. */
export function readFragment(text: string): IceCredentials | null | undefined {
  const ufrag = /^a=ice-ufrag:([A-Za-z0-9+/]{4,256})\r?$/m.exec(text)?.[1];
  const pwd = /^a=ice-pwd:([A-Za-z0-9+/]{22,256})\r?$/m.exec(text)?.[1];
  if (ufrag !== undefined && pwd !== undefined) return { ufrag, pwd };
  const hasCredentials = /^a=ice-(?:ufrag|pwd):/m.test(text);
  return !hasCredentials && /^a=(?:candidate:|end-of-candidates)/m.test(text) ? null : undefined;
}

/** An offer that asks for both directions, or for none, is answered with the direction of the protocol. */
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

/**
 * The first section, as `audio section 0`, that the client sends and the server does not receive.
 * WHIP refuses such an offer as a whole, so that nobody believes to send what nobody gets (RFC 9725 §4.4.3).
 */
export function firstNotReceived(offer: string, answer: string): string | null {
  const answered = sectionsOf(answer);
  for (const [i, offered] of sectionsOf(offer).entries()) {
    const [, kind, port] = /^m=(\S+) (\d+)/.exec(offered) ?? [];
    const isDisabled = port === "0" && !/^a=bundle-only\r?$/m.test(offered);
    const isSent = !isDisabled && !/^a=(?:inactive|recvonly)\r?$/m.test(offered);
    if ((kind !== "audio" && kind !== "video") || !isSent) continue;
    if (answered[i] !== undefined && !/^a=recvonly\r?$/m.test(answered[i])) return `${kind} section ${i}`;
  }
  return null;
}

const sectionsOf = (sdp: string): string[] => sdp.split(/^(?=m=)/m).slice(1);

/** RTCP has no port of its own. RFC 9725 §4.4.1 requires the attribute that says so in every section, offered or not. */
export function withExclusiveMux(answer: string): string {
  return answer.replaceAll("a=rtcp-mux\r\n", "a=rtcp-mux\r\na=rtcp-mux-only\r\n");
}

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
