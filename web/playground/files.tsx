/** Files that participants send each other during the call; they are stored nowhere. */
import { signal } from "@preact/signals";
import type { Room } from "../sdk/index.ts";
import { attempt } from "./session.ts";

const TOPIC = "playground.file";

type ReceivedFile = { id: string; from: string; name: string; url: string };

const received = signal<readonly ReceivedFile[]>([]);
/** The sent fraction of the file that is being sent. */
const progress = signal<number | null>(null);

export function receiveFiles(room: Room): void {
  for (const { url } of received.value) URL.revokeObjectURL(url);
  received.value = [];
  room.onStream(TOPIC, async (reader, from) => {
    const { id, name } = reader;
    const url = URL.createObjectURL(await reader.blob());
    received.value = [...received.value, { id, from, name: name ?? "file", url }];
  });
}

export function FilePicker({ room }: { room: Room }) {
  const send = async (file: File) => {
    try {
      await room.sendFile(file, { topic: TOPIC, onProgress: (fraction) => (progress.value = fraction) });
    } finally {
      progress.value = null;
    }
  };
  return (
    <label>
      Share a file with everyone{progress.value !== null && `: ${Math.round(100 * progress.value)} %`}
      <input
        type="file"
        class="input"
        disabled={progress.value !== null}
        onChange={({ currentTarget }) => {
          const [file] = currentTarget.files ?? [];
          currentTarget.value = "";
          if (file) attempt(() => send(file))();
        }}
      />
    </label>
  );
}

export function ReceivedFiles() {
  if (received.value.length === 0) return null;
  return (
    <ul class="files" aria-label="Received files">
      {received.value.map(({ id, from, name, url }) => (
        <li key={id}>
          {from} sent{" "}
          <a href={url} download={name}>
            {name}
          </a>
        </li>
      ))}
    </ul>
  );
}
