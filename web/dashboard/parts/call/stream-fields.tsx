import { useState } from "preact/hooks";
import { LIVE_STREAM_VISIBILITIES, type LiveStreamVisibility } from "../../../../src/protocol/enums.ts";
import { Field } from "../field.tsx";
import { Select, type Submit, TextArea, TextInput } from "../form.tsx";
import { humanize } from "../states.tsx";

type Description = {
  title: string;
  description: string | null;
  thumbnailUrl: string | null;
  category: string | null;
  language: string | null;
  tags: string[];
  visibility: LiveStreamVisibility;
};

/** The fields of a live stream, for creating and for editing. */
export function useDescription(form: Submit, known?: Description) {
  const [title, setTitle] = useState(known?.title ?? "");
  const [description, setDescription] = useState(known?.description ?? "");
  const [thumbnailUrl, setThumbnailUrl] = useState(known?.thumbnailUrl ?? "");
  const [category, setCategory] = useState(known?.category ?? "");
  const [language, setLanguage] = useState(known?.language ?? "");
  const [tags, setTags] = useState(known?.tags.join(", ") ?? "");
  const [visibility, setVisibility] = useState<LiveStreamVisibility>(known?.visibility ?? "PUBLIC");
  return {
    values: () => ({
      title,
      description,
      thumbnailUrl,
      category,
      language,
      visibility,
      tags: tags
        .split(",")
        .map((tag) => tag.trim())
        .filter((tag) => tag !== ""),
    }),
    title: (
      <Field label="Title" error={form.problem("title")}>
        <TextInput required maxLength={200} value={title} onValue={setTitle} />
      </Field>
    ),
    rest: (
      <>
        <Field label="Description" error={form.problem("description")}>
          <TextArea rows={2} maxLength={2000} value={description} onValue={setDescription} />
        </Field>
        <Field label="Visibility" hint="For your own lists. Access depends on the tokens that you mint.">
          <Select
            value={visibility}
            onValue={setVisibility}
            options={LIVE_STREAM_VISIBILITIES.map((value) => ({ value, label: humanize(value) }))}
          />
        </Field>
        <details>
          <summary>More fields</summary>
          <div class="stack">
            <Field label="Category" error={form.problem("category")}>
              <TextInput maxLength={64} value={category} onValue={setCategory} />
            </Field>
            <Field label="Tags" hint="Separated by commas." error={form.problem("tags")}>
              <TextInput value={tags} onValue={setTags} />
            </Field>
            <Field label="Language" error={form.problem("language")}>
              <TextInput maxLength={16} placeholder="en" value={language} onValue={setLanguage} />
            </Field>
            <Field label="Thumbnail address" error={form.problem("thumbnailUrl")}>
              <TextInput type="url" maxLength={2048} value={thumbnailUrl} onValue={setThumbnailUrl} />
            </Field>
          </div>
        </details>
      </>
    ),
  };
}
