import reactHooks from "eslint-plugin-react-hooks";
import typescript from "typescript-eslint";

export default typescript.config(
  ...typescript.configs.strictTypeChecked,
  reactHooks.configs.flat["recommended-latest"],
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "react-hooks/refs": "off", // a ref to the latest callback, and to rows that were fetched
      "react-hooks/set-state-in-effect": "off",
      "react-hooks/incompatible-library": "off", // the virtual list
    },
  },
);
