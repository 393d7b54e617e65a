import { useState } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import type { Recording, RecordingFile } from "../../../../src/protocol/recordings.ts";
import { request } from "../../api.ts";
import { usePolling } from "../../live.ts";
import { Action } from "../../parts/action.tsx";
import { ConfirmButton } from "../../parts/confirm.tsx";
import { Id } from "../../parts/id.tsx";
import { bytesText } from "../../parts/numbers.ts";
import { ComposeRecording, Composition } from "../../parts/recording/recording-composition.tsx";
import { ShareRecording } from "../../parts/recording/recording-share.tsx";
import { Details, Loaded, PageHead } from "../../parts/states.tsx";
import { Table } from "../../parts/table.tsx";
import { Ago, durationText } from "../../parts/time.tsx";
import { may, useProject } from "../../project.ts";

const EVERY_MS = 2_000;

/** One recording: its files, its composition, playback and sharing. */
export function OneRecording() {
  const { recordingId = "" } = useRoute().params;
  const { route } = useLocation();
  const { at, path } = useProject();
  const routes = at.recordings({ recordingId });
  const recording = usePolling(() => request(routes.get()), [recordingId], EVERY_MS);
  const [openDialog, setOpenDialog] = useState<"share" | "compose" | null>(null);
  const close = () => setOpenDialog(null);

  const replay = async () => {
    const { hash } = new URL((await request(routes["view-tokens"].post({}))).url);
    location.assign(`/replay${hash}`);
  };
  const download = async (fileId: string) => save((await request(routes.files({ fileId })["download-url"].get())).url);

  return (
    <Loaded live={recording}>
      {(shown) => (
        <>
          <PageHead title={shown.name ?? shown.roomName} badge={shown.status}>
            {may("recordings:manage") && (
              <>
                {shown.status === "RECORDING" ? (
                  <Action tone="primary" done="Stopped." run={() => request(routes.stop.post()).then(recording.reload)}>
                    Stop
                  </Action>
                ) : (
                  shown.files.length > 0 && (
                    <>
                      <Action tone="primary" run={replay}>
                        Replay
                      </Action>
                      <button type="button" class="button" onClick={() => setOpenDialog("share")}>
                        Share
                      </button>
                    </>
                  )
                )}
                <ConfirmButton
                  title="Delete this recording?"
                  action="Delete"
                  done="The recording was deleted."
                  run={async () => {
                    await request(routes.delete());
                    route(path("recordings"));
                  }}
                >
                  Its files and its composed video are deleted permanently, and links to it stop working.
                </ConfirmButton>
              </>
            )}
          </PageHead>
          {shown.error !== null && (
            <p class={shown.status === "FAILED" ? "note bad" : "note warn"} role="alert">
              {shown.error}
            </p>
          )}
          <Details
            items={[
              [
                "Room",
                <a key="room" href={path(`rooms/${shown.roomId}`)}>
                  {shown.roomName}
                </a>,
              ],
              ["Started", <Ago key="started" at={shown.startedAt} />],
              ["Length", durationText(shown.durationMs)],
              ["Size", bytesText(shown.bytes)],
              ["Content", shown.audioOnly ? "Audio" : "Audio and video"],
              ["Id", <Id key="id">{shown.id}</Id>],
            ]}
          />
          {shown.status !== "RECORDING" && shown.files.length > 0 && (
            <Composition
              composition={shown.composition}
              onCompose={() => setOpenDialog("compose")}
              onDownload={download}
              onDiscard={() => request(routes.composition.delete()).then(recording.reload)}
            />
          )}
          <Files recording={shown} onDownload={download} />
          {openDialog === "share" && (
            <ShareRecording
              mint={(ttlSeconds) => request(routes["view-tokens"].post({ ttlSeconds })).then(({ url }) => url)}
              onClose={close}
            />
          )}
          {openDialog === "compose" && (
            <ComposeRecording
              compose={async (wanted) => {
                await request(routes.composition.post(wanted));
                recording.reload();
                close();
              }}
              onClose={close}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

type FilesProps = { recording: Recording; onDownload: (fileId: string) => Promise<void> };

function Files({ recording: { status, files }, onDownload }: FilesProps) {
  return (
    <section class="stack">
      <h2>Files</h2>
      {files.length === 0 ? (
        <div class="empty">
          {status === "RECORDING"
            ? "No participant has sent media yet. The first packet starts the first file."
            : "No participant sent media during the recording, so there is nothing to play."}
        </div>
      ) : (
        <Table
          label="Files"
          rows={files}
          id={({ id }) => id}
          columns={[
            { title: "Participant", cell: ({ identity }) => identity },
            { title: "Track", cell: trackText },
            { title: "Format", cell: formatText, wide: true },
            { title: "Begins at", cell: ({ offsetMs }) => durationText(offsetMs), number: true, wide: true },
            { title: "Length", cell: ({ durationMs }) => durationText(durationMs), number: true },
            {
              title: "Size",
              cell: ({ bytes, status }) => (status === "LOST" ? "lost" : bytesText(bytes)),
              number: true,
            },
            ...(may("recordings:manage")
              ? [
                  {
                    title: "Download",
                    actions: true,
                    cell: (file: RecordingFile) =>
                      file.status !== "LOST" && (
                        <Action
                          label={`Download ${trackText(file)} of ${file.identity}`}
                          run={() => onDownload(file.id)}
                        >
                          Download
                        </Action>
                      ),
                  },
                ]
              : []),
          ]}
        />
      )}
    </section>
  );
}

function trackText({ kind, source }: RecordingFile): string {
  const names: Record<string, string> = { screenShare: "screen", screenShareAudio: "screen audio", other: kind };
  return names[source] ?? source;
}

/** Clicks a download link, because navigating to the address would play the file instead. */
function save(url: string): void {
  const link = document.createElement("a");
  // The page may have been opened under another host name than the server's own, and browsers ignore `download` for other origins.
  const { pathname, search } = new URL(url);
  link.href = pathname.startsWith("/v1/") ? pathname + search : url;
  // The server names the file.
  link.download = "";
  link.click();
}

function formatText({ codec, width, height }: RecordingFile): string {
  return [codec.toUpperCase(), width && height && `${width} × ${height}`].filter(Boolean).join(", ");
}
