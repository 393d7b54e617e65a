import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";
import { Field } from "./field.tsx";
import { TextInput } from "./form.tsx";
import { attempt } from "./toast.tsx";

type ConfirmProps = {
  title: string;
  /** A sentence on the consequences. */
  children: ComponentChildren;
  action: string;
  /** The text that the user must type to confirm an irreversible action. */
  typed?: string;
  run: () => Promise<unknown>;
  done: string;
  onClose: () => void;
};

/** The confirmation dialog of an action that cannot be undone. */
export function Confirm({ title, children, action, typed, run, done, onClose }: ConfirmProps) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const worked = await attempt(run, done);
    setBusy(false);
    if (worked) onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} class="stack">
        <p>{children}</p>
        {typed !== undefined && (
          <Field label={`Type ${typed} to go on`}>
            <TextInput value={text} onValue={setText} autocomplete="off" />
          </Field>
        )}
        <div class="actions">
          <button type="button" class="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="button danger" disabled={busy || (typed !== undefined && text !== typed)}>
            {action}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

type ConfirmButtonProps = Omit<ConfirmProps, "onClose"> & { label?: string; button?: string };

/** A button that asks for confirmation. */
export function ConfirmButton({ button, label, ...confirm }: ConfirmButtonProps) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <button type="button" class="button danger" aria-label={label} onClick={() => setAsking(true)}>
        {button ?? confirm.action}
      </button>
      {asking && <Confirm {...confirm} onClose={() => setAsking(false)} />}
    </>
  );
}
