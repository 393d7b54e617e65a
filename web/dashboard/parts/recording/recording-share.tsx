import { useState } from "preact/hooks";
import { CodeBlock } from "../code.tsx";
import { Dialog } from "../dialog.tsx";
import { Field } from "../field.tsx";
import { FormDialog, Select, useSubmit } from "../form.tsx";

const LIFETIMES = [
  { value: "3600", label: "One hour" },
  { value: "86400", label: "One day" },
  { value: "604800", label: "One week" },
] as const;

type ShareProps = { mint: (ttlSeconds: number) => Promise<string>; onClose: () => void };

/** Creates a link to the replay that works without an account. */
export function ShareRecording({ mint, onClose }: ShareProps) {
  const [lifetime, setLifetime] = useState<(typeof LIFETIMES)[number]["value"]>("86400");
  const [url, setUrl] = useState<string | null>(null);
  const form = useSubmit(async () => setUrl(await mint(Number(lifetime))));
  if (url !== null) {
    return (
      <Dialog title="A link to the replay" onClose={onClose}>
        <div class="stack">
          <p>Anyone with this link can play the recording and read its chat until the link expires.</p>
          <CodeBlock text={url} label="the link" />
          <div class="actions">
            <button type="button" class="button primary" onClick={onClose}>
              Done
            </button>
          </div>
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title="Share the replay" action="Create a link" form={form} onClose={onClose}>
      <Field label="Works for" error={form.problem("ttlSeconds")}>
        <Select value={lifetime} onValue={setLifetime} options={LIFETIMES} />
      </Field>
    </FormDialog>
  );
}
