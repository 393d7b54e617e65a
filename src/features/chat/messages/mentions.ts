import { MAX_MENTIONS } from "../../../protocol/chat-records.ts";

const NAMED = /(?<![A-Za-z0-9._@:+=|-])@([A-Za-z0-9._@:+=|-]{1,128})/g;
/** What may end a user id and more often ends a sentence. */
const TRAILING = /[._@:+=|-]+$/;

/** The members that a text names as `@user`, each once. */
export function mentionsIn(text: string, isMember: (userId: string) => boolean): string[] {
  const found = new Set<string>();
  let looked = 0;
  for (const [, name = ""] of text.matchAll(NAMED)) {
    // Names of nobody are bounded too: a text may have a thousand of them.
    if (found.size === MAX_MENTIONS || ++looked > 2 * MAX_MENTIONS) break;
    if (found.has(name)) continue;
    const bare = name.replace(TRAILING, "");
    if (isMember(name)) found.add(name);
    else if (bare !== name && bare !== "" && isMember(bare)) found.add(bare);
  }
  return [...found];
}

/** The text without one of its mentions, for somebody who is erased. */
export function withoutMention(text: string, userId: string, placeholder: string): string {
  return text.replaceAll(NAMED, (whole: string, name: string) =>
    name === userId || name.replace(TRAILING, "") === userId ? `@${placeholder}${name.slice(userId.length)}` : whole,
  );
}
