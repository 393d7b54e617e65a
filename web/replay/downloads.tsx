import { pathOf } from "./player.ts";
import type { NameOf, Replay } from "./replay.ts";

/** Links to the files of the recording, and to its composition. */
export function Downloads({ replay: { recording, downloads }, nameOf }: { replay: Replay; nameOf: NameOf }) {
  if (downloads.length === 0) return null;
  const textOf = (fileId: string) => {
    if (fileId === recording.composition?.fileId) return "The whole call as one video";
    const file = recording.files.find(({ id }) => id === fileId);
    return file ? `${nameOf(file.identity)}: ${SOURCES[file.source] ?? file.kind}` : fileId;
  };
  return (
    <details class="downloads">
      <summary>Download</summary>
      <ul>
        {downloads.map(({ fileId, url }) => (
          <li key={fileId}>
            {/* The server names the file. */}
            <a href={pathOf(url)} download="">
              {textOf(fileId)}
            </a>
          </li>
        ))}
      </ul>
    </details>
  );
}

const SOURCES: Record<string, string> = {
  camera: "camera",
  microphone: "microphone",
  screenShare: "screen",
  screenShareAudio: "sound of the screen",
};
