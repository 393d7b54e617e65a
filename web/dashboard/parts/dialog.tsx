import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Field } from "./field.tsx";
import { TextInput } from "./form.tsx";
import { attempt } from "./toast.tsx";

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren };

/** The browser's own dialog: it keeps the focus inside, closes on Escape, and gives the focus back. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    element.current?.showModal();
  }, []);
  return (
    <dialog ref={element} class="dialog" aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={() => element.current?.close()}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  );
}

type ConfirmProps = {
  title: string;
  /** What will happen, in a sentence. */
  children: ComponentChildren;
  action: string;
  /** Must be typed for what cannot be undone. */
  typed?: string;
  run: () => Promise<unknown>;
  done: string;
  onClose: () => void;
};

/** For what cannot be undone. */
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
