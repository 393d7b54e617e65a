import { lchownSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

/** What root makes in a directory that belongs to somebody else; that one alone runs the server, and must be able to read it. */
type GiveFile = (path: string) => void;

/** Gives a file or a folder, with all that is in it, to the owner of the data directory; without effect for all but root. */
export function giveToOwnerOf(dataDir: string): GiveFile {
  const { uid, gid } = statSync(dataDir);
  if (process.getuid?.() !== 0 || uid === 0) return () => {};
  const give: GiveFile = (path) => {
    // Never through a link: what it leads to may be anybody's.
    lchownSync(path, uid, gid);
  };
  return (path) => {
    const inside = statSync(path).isDirectory() ? readdirSync(path, { recursive: true, encoding: "utf8" }) : [];
    for (const name of inside) give(join(path, name));
    give(path);
  };
}
