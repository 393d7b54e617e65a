import { useState } from "preact/hooks";
import type { CompositionState } from "../../../../src/protocol/recordings.ts";
import { may } from "../../project.ts";
import { Action } from "../action.tsx";
import { Field } from "../field.tsx";
import { FormDialog, Select, useSubmit } from "../form.tsx";

type CompositionProps = {
  composition: CompositionState | null;
  onCompose: () => void;
  onDownload: (fileId: string) => Promise<void>;
  onDiscard: () => Promise<unknown>;
};

/** The composition of a recording's files into one video: missing, running, ready or failed. */
export function Composition({ composition, onCompose, onDownload, onDiscard }: CompositionProps) {
  const manages = may("recordings:manage");
  const { status, progress = 0, fileId, error } = composition ?? {};
  const compose = (text: string) =>
    manages && (
      <button type="button" class="button" onClick={onCompose}>
        {text}
      </button>
    );
  return (
    <section class="card stack" aria-label="Composed video">
      <h2>Composed video</h2>
      {status === undefined && (
        <div class="row between">
          <p class="quiet">All files as one MP4, for any player.</p>
          {compose("Compose")}
        </div>
      )}
      {status === "RUNNING" && (
        <div class="row between">
          <Progress share={progress} />
          {manages && (
            <Action label="Cancel the composition" done="Cancelled." run={onDiscard}>
              Cancel
            </Action>
          )}
        </div>
      )}
      {status === "FAILED" && (
        <div class="row between">
          <p class="note bad" role="alert">
            The video could not be composed. {error ?? "See the server log."}
          </p>
          {compose("Try again")}
        </div>
      )}
      {status === "READY" && (
        <div class="row between">
          <p class="quiet">The video is ready.</p>
          {manages && (
            <div class="actions">
              <Action tone="primary" run={() => onDownload(fileId ?? "")}>
                Download the video
              </Action>
              {compose("Compose again")}
              <Action done="The video was deleted." run={onDiscard}>
                Delete the video
              </Action>
            </div>
          )}
        </div>
      )}
    </section>
  );
}

function Progress({ share }: { share: number }) {
  const text = `${Math.round(share * 100)} %`;
  return (
    <div class="meter" role="progressbar" aria-label="Composing" aria-valuenow={Math.round(share * 100)}>
      <span>Composing</span>
      <span class="quiet">{text}</span>
      <div class="bar" aria-hidden="true">
        <div class="good" style={{ width: text.replace(" ", "") }} />
      </div>
    </div>
  );
}

const LAYOUTS = [
  { value: "grid", label: "Grid of all participants" },
  { value: "speaker", label: "Active speaker, with the others below" },
] as const;
const SIZES = [
  { value: "640x360", label: "360p" },
  { value: "1280x720", label: "720p" },
  { value: "1920x1080", label: "1080p" },
] as const;
type Wanted = { layout: (typeof LAYOUTS)[number]["value"]; width: number; height: number };
type ComposeProps = { compose: (wanted: Wanted) => Promise<void>; onClose: () => void };

export function ComposeRecording({ compose, onClose }: ComposeProps) {
  const [layout, setLayout] = useState<Wanted["layout"]>("grid");
  const [size, setSize] = useState<(typeof SIZES)[number]["value"]>("1280x720");
  const form = useSubmit(() => {
    const [width = 0, height = 0] = size.split("x").map(Number);
    return compose({ layout, width, height });
  });
  return (
    <FormDialog title="Compose one video" action="Compose" form={form} onClose={onClose}>
      <p class="quiet">It is composed in the background at low priority and replaces an earlier video.</p>
      <Field label="Layout" error={form.problem("layout")}>
        <Select value={layout} onValue={setLayout} options={LAYOUTS} />
      </Field>
      <Field label="Size" error={form.problem("width")}>
        <Select value={size} onValue={setSize} options={SIZES} />
      </Field>
    </FormDialog>
  );
}
